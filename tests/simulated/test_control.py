# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the simulated cluster answers beside the Kubernetes API: /sim."""

from __future__ import annotations

from tests.simulated.serving import GPU_NODES


def test_starts_as_the_scenario_says(cluster):
    state = cluster.get("/sim/state")
    nodes = {node["name"]: node for node in state["nodes"]}
    assert [name for name in nodes if nodes[name]["gpus"]] == list(GPU_NODES)
    for name in GPU_NODES:
        assert len(nodes[name]["gpus"]) == 8
        assert (nodes[name]["driver"], nodes[name]["upgrade_state"]) == ("575.57.08", "upgrade-done")
    assert (state["settled"], state["problems"], cluster.violations) == (True, [], [])
