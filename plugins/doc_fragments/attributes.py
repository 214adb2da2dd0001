# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Runs the same decisions and writes nothing.
    support: full
  diff_mode:
    description: Shows what was or would be changed.
    support: full
"""
    INFO = r"""
options: {}
attributes:
  check_mode:
    description: Only reads, so check mode changes nothing about it.
    support: full
  diff_mode:
    description: Nothing is changed, so there is no difference to show.
    support: N/A
"""
