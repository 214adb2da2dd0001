# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ControllerRevisions of DaemonSets and StatefulSets: one per pod template, the newest has the highest number."""

from __future__ import annotations

from simulator.controllers.owners import template_hash
from simulator.objects import owner_reference

HASH = "controller-revision-hash"


def revisions_of(store, workload):
    """Oldest first."""
    owned = [o for plural, o in store.owned_by(workload["metadata"]["uid"]) if plural == "controllerrevisions"]
    return sorted(owned, key=lambda o: o["revision"])


def sync_revision(store, workload):
    """The ControllerRevision of the template as it is now; created, or made the newest again after a rollback."""
    template, metadata = workload["spec"]["template"], workload["metadata"]
    digest = template_hash(template)
    name = f"{metadata['name']}-{digest}"
    known = revisions_of(store, workload)
    newest = known[-1]["revision"] if known else 0
    found = next((o for o in known if o["metadata"]["name"] == name), None)
    if found is None:
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: digest}
        body = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner_reference(workload)]},
            "revision": newest + 1,
            "data": {"spec": {"template": template}},
        }
        return store.create("controllerrevisions", body, metadata["namespace"])
    if found["revision"] != newest:
        edit = lambda o: o.update(revision=newest + 1)  # noqa: E731
        return store.mutate("controllerrevisions", name, edit, metadata["namespace"])
    return found


def trim_revisions(store, workload, in_use):
    """Delete the oldest beyond revisionHistoryLimit; in_use: names that must stay."""
    limit = workload["spec"].get("revisionHistoryLimit", 10)
    spare = [o for o in revisions_of(store, workload) if o["metadata"]["name"] not in in_use]
    for revision in spare[: max(0, len(spare) - limit)]:
        store.delete("controllerrevisions", revision["metadata"]["name"], workload["metadata"]["namespace"])
