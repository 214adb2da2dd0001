# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is deleted with something else: owned objects, the contents of a namespace, custom resources with their CRD."""

from __future__ import annotations

from simulator.controllers.base import Controller
from simulator.objects import set_condition
from simulator.resources import from_crd


class Garbage(Controller):
    name = "garbage-collector"

    def seen(self, change):
        metadata = change.object["metadata"]
        if change.type == "DELETED":
            self.mark(("owner", metadata["uid"]))
        elif "foregroundDeletion" in (metadata.get("finalizers") or []) and metadata.get("deletionTimestamp"):
            self.mark(("foreground", change.resource.plural, metadata.get("namespace", ""), metadata["name"]))

    def reconcile(self, key):
        if key[0] == "owner":
            self._delete_owned(key[1])
            return
        _what, plural, namespace, name = key
        obj = self.store.get(plural, name, namespace)
        if obj is None:
            return
        if self._delete_owned(obj["metadata"]["uid"]):
            self.mark_later(0.2 * self.clock.speed, key)
            return
        edit = lambda o: o["metadata"]["finalizers"].remove("foregroundDeletion")  # noqa: E731
        self.store.mutate(plural, name, edit, namespace)

    def _delete_owned(self, uid):
        """How many owned objects are still there."""
        for plural, obj in self.store.owned_by(uid):
            if not obj["metadata"].get("deletionTimestamp"):
                self.store.delete(plural, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        return len(self.store.owned_by(uid))


class Namespaces(Controller):
    name = "namespaces"

    def seen(self, change):
        if change.resource.plural == "namespaces" and change.type != "DELETED":
            self.mark(change.object["metadata"]["name"])

    def reconcile(self, key):
        namespace = self.store.get("namespaces", key)
        if namespace is None:
            return
        if not namespace["metadata"].get("deletionTimestamp"):
            if self.store.get("serviceaccounts", "default", key) is None:
                self.store.create("serviceaccounts", {"metadata": {"name": "default"}}, key)
            return
        left = 0
        for resource in self.store.resources:
            if not resource.namespaced:
                continue
            for obj in self.store.list(resource, key):
                if not obj["metadata"].get("deletionTimestamp"):
                    self.store.delete(resource, obj["metadata"]["name"], key)
            left += len(self.store.list(resource, key))
        if left:
            self.mark_later(0.2 * self.clock.speed, key)
            return

        def edit(obj):
            obj["spec"]["finalizers"] = []
            obj["metadata"].pop("finalizers", None)

        self.store.mutate("namespaces", key, edit)


class CustomResources(Controller):
    """Serves what a CustomResourceDefinition describes, and says Established a moment later."""

    name = "custom-resources"

    def seen(self, change):
        if change.resource.plural != "customresourcedefinitions":
            return
        spec = change.object["spec"]
        existing = self.store.resource(spec["names"]["plural"], spec["group"])
        if existing and existing.crd is None:
            return
        if change.type == "DELETED":
            if existing:
                self.store.remove_resource(existing)
            return
        if existing is None:
            self.store.add_resource(from_crd(change.object))
        else:
            fresh = from_crd(change.object)
            existing.crd, existing.columns, existing.status = fresh.crd, fresh.columns, fresh.status
        self.mark(change.object["metadata"]["name"])

    def reconcile(self, key):
        stamp = self.clock.stamp()

        def edit(crd):
            set_condition(crd, "NamesAccepted", "True", stamp, "NoConflicts", "no conflicts found")
            set_condition(
                crd, "Established", "True", stamp, "InitialNamesAccepted", "the initial names have been accepted"
            )
            crd["status"]["acceptedNames"] = crd["spec"]["names"]
            crd["status"]["storedVersions"] = [v["name"] for v in crd["spec"]["versions"] if v.get("storage")]

        self.store.mutate("customresourcedefinitions", key, edit, status=True)
