# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  node:
    description: Name of the Node.
    type: str
    required: true
"""
    UID = r"""
options:
  node_uid:
    description:
      - UID of the Node that is meant. A node of that name with another UID has been created again, and is refused.
    type: str
"""
    LOCK = r"""
options:
  lock_s:
    description:
      - Seconds after which a run that shows no life on this node may be taken over by another.
    type: int
    default: 30
"""
