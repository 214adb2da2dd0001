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
            for ref in metadata.get("ownerReferences") or []:
                self._look_at_owner(ref, metadata.get("namespace", ""))
            return
        if metadata.get("deletionTimestamp") and set(metadata.get("finalizers") or []) & {
            "foregroundDeletion",
            "orphan",
        }:
            self.mark(("dying", change.resource, metadata.get("namespace", ""), metadata["name"]))
        if metadata.get("ownerReferences") and (
            change.old is None or change.old["metadata"].get("ownerReferences") != metadata["ownerReferences"]
        ):
            self.mark(("owned", change.resource, metadata.get("namespace", ""), metadata["name"]))

    def _look_at_owner(self, ref, namespace):
        """An owner in foreground deletion waits for what it owns."""
        resource, owner = self._owner(ref, namespace)
        if owner is not None and "foregroundDeletion" in (owner["metadata"].get("finalizers") or []):
            meta = owner["metadata"]
            self.mark(("dying", resource, meta.get("namespace", ""), meta["name"]))

    def _owner(self, ref, namespace):
        """(resource, object) that a reference names; the object is None when it is gone."""
        group = ref["apiVersion"].rpartition("/")[0]
        resource = next((r for r in self.store.resources if r.kind == ref["kind"] and r.group == group), None)
        if resource is None:
            return None, None
        owner = self.store.get(resource, ref["name"], namespace if resource.namespaced else "")
        return resource, owner if owner and owner["metadata"]["uid"] == ref["uid"] else None

    def reconcile(self, key):
        if key[0] == "owner":
            for plural, obj in self.store.owned_by(key[1]):
                self._collect(plural, obj)
            return
        what, resource, namespace, name = key
        obj = self.store.get(resource, name, namespace)
        if obj is None:
            return
        if what == "owned":
            self._collect(resource, obj)
            return
        finalizers, uid = obj["metadata"].get("finalizers") or [], obj["metadata"]["uid"]
        if "orphan" in finalizers:
            for plural, owned in self.store.owned_by(uid):
                self._disown(plural, owned, {uid})
            self._drop(resource, obj, "orphan")
        elif "foregroundDeletion" in finalizers and not self._delete_blocking(uid):
            self._drop(resource, obj, "foregroundDeletion")

    def _delete_blocking(self, uid):
        """Delete what is owned, in the foreground too; how many are left that the owner has to wait for."""
        for plural, owned in self.store.owned_by(uid):
            if not owned["metadata"].get("deletionTimestamp"):
                self._delete(plural, owned, {"propagationPolicy": "Foreground"} if self._owns(owned) else None)
        left = (ref for _plural, owned in self.store.owned_by(uid) for ref in owned["metadata"]["ownerReferences"])
        return sum(ref["uid"] == uid and bool(ref.get("blockOwnerDeletion")) for ref in left)

    def _owns(self, obj):
        return bool(self.store.owned_by(obj["metadata"]["uid"]))

    def _collect(self, plural, obj):
        """Delete an object none of whose owners is there; with one that is, it only loses the references to the others."""
        namespace = obj["metadata"].get("namespace", "")
        refs = obj["metadata"].get("ownerReferences") or []
        gone = {ref["uid"] for ref in refs if self._owner(ref, namespace)[1] is None}
        if not gone:
            return
        if len(gone) < len({ref["uid"] for ref in refs}):
            self._disown(plural, obj, gone)
        elif not obj["metadata"].get("deletionTimestamp"):
            self._delete(plural, obj, None)

    def _delete(self, plural, obj, options):
        self.store.delete(plural, obj["metadata"]["name"], obj["metadata"].get("namespace", ""), options)

    def _disown(self, plural, obj, uids):
        def edit(copy):
            kept = [ref for ref in copy["metadata"]["ownerReferences"] if ref["uid"] not in uids]
            copy["metadata"]["ownerReferences"] = kept
            if not kept:
                del copy["metadata"]["ownerReferences"]

        self.store.mutate(plural, obj["metadata"]["name"], edit, obj["metadata"].get("namespace", ""))

    def _drop(self, resource, obj, finalizer):
        edit = lambda o: o["metadata"]["finalizers"].remove(finalizer)  # noqa: E731
        self.store.mutate(resource, obj["metadata"]["name"], edit, obj["metadata"].get("namespace", ""))


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
