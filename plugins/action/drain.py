# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.plugin_utils.api_door import ApiDoor


class ActionModule(ApiDoor):
    """The API door of the module of the same name."""
