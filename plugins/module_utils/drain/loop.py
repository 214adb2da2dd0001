# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The eviction loop: watch the node, its pods and all budgets; evict what may go; end when nothing is left.

One thread decides, a bounded pool of threads sends. Whether a pod is gone is known from the watch alone, by UID, never
from a name or from the answer to an eviction.
"""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import pods, progress, refusals, verdicts
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.rounds import Rounds
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import hold
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

TICK_S = 1
# A pod listed this long ago, or tried before, is read again before its eviction is sent: the watch may hang unnoticed,
# and an eviction with a wrong UID is refused but blocks the budget for two minutes (kubernetes/kubernetes#138229).
FRESH_S = 30
# A controller whose pods came back this often will go on doing so.
RETURNS = 3


class Loop:
    """One drain of one node.

    mirror: a Mirror with sources "node", "pods" and, when they may be read, "pdbs". daemonsets: function of the pods,
    gives the set of (namespace, name) that exist, or None. options, grace_period_s, parallel: the task's.
    """

    def __init__(self, task, mirror, has_pdbs, daemonsets, options, grace_period_s, parallel, server_now):
        self._task = task
        self._mirror = mirror
        self._has_pdbs = has_pdbs
        self._daemonsets = daemonsets
        self._options = options
        self._grace_period_s = grace_period_s
        self._parallel = parallel
        self._started = task.monotonic()
        self._server_started = server_now
        self._rounds = Rounds()
        self._answers = queue.SimpleQueue()
        self._node = next(iter(mirror.objects("node").values()))
        self._first = self._latest = mirror.objects("pods")
        self._seen = {}
        self._assessed = []
        self._evicted_of = set()
        self._returned = {}
        self._reporter = progress.Reporter(task.progress)
        self._pool = None

    @property
    def assessed(self):
        """Assessments of the pods on the node as last seen."""
        return self._assessed

    def look(self):
        """Judge what is on the node now."""
        self._latest = self._mirror.objects("pods")
        pdbs = list(self._mirror.objects("pdbs").values()) if self._has_pdbs else None
        now = self._server_started + timedelta(seconds=self._elapsed())
        self._assessed = verdicts.assess(
            self._latest.values(), pdbs, self._daemonsets(self._latest.values()), self._options, now
        )
        for one in self._assessed:
            self._seen[one.uid] = one
        self._notice_unanswered()
        return self._assessed

    def _notice_unanswered(self):
        """An eviction whose answer was lost has changed something after all when its pod leaves."""
        staying = {one.uid for one in self._assessed if one.way != "wait"}
        for uid in self._seen.keys() - staying:
            if self._rounds.of(uid).unanswered:
                self._task.changed = True

    def refused(self):
        """Assessments that need an option before anything is evicted."""
        return [one for one in self._assessed if one.way == "decide"]

    def is_empty(self):
        return not self._pending()

    def run(self, timeout_s):
        """Evict until the node is empty; True when it is, False when the time is up or only hopeless pods are left."""
        self._pool = ThreadPoolExecutor(max_workers=self._parallel, thread_name_prefix="evict")
        try:
            self._mirror.wait_for(self._step, timeout_s - self._elapsed(), tick_s=TICK_S, on_tick=self._report)
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._take_answers(raising=False)
        self.look()
        return self.is_empty()

    def _step(self):
        self._check_node()
        self._take_answers()
        self.look()
        self._notice_returns()
        hopeful = [one for one in self._pending() if not self._is_hopeless(one)]
        for one in self._rounds.due(hopeful, self._latest, self._task.monotonic()):
            verify = self._rounds.of(one.uid).count > 0 or self._elapsed() > FRESH_S
            self._rounds.sent(one, self._task.monotonic())
            self._pool.submit(self._evict, one, verify)
        self._report()
        return not hopeful

    def _pending(self):
        return [one for one in self._assessed if one.way != "leave"]

    def _is_hopeless(self, one):
        """Waiting does not help: refused for good, left to the user's decision, or coming back each time."""
        return one.way != "wait" and (
            one.way == "decide" or self._rounds.of(one.uid).fatal or self.returns(one) >= RETURNS
        )

    def _evict(self, one, verify):
        """In a thread of the pool: send one eviction; queue (assessment, None | Refusal | what must end the drain)."""
        try:
            answer = (one, self._send(one, verify))
        except BaseException as error:  # a lost lock or a dead controller must stop the drain, not this thread
            answer = (one, error)
        self._answers.put(answer)

    def _send(self, one, verify):
        namespace, name = one.pod["metadata"]["namespace"], one.pod["metadata"]["name"]
        pod = self._mirror.objects("pods").get(one.uid)
        try:
            if pod is not None and verify:
                pod = self._read(namespace, name)
            if pod is None or pod["metadata"]["uid"] != one.uid or pods.is_terminating(pod):
                return refusals.GONE
            if pod["spec"].get("nodeName") != self._node["metadata"]["name"]:
                return refusals.GONE
            self._task.kube.evict(namespace, name, one.uid, grace_period_s=self._grace_period_s)
        except ApiError as error:
            return refusals.of(error)
        self._task.changed = True
        return None

    def _read(self, namespace, name):
        try:
            return self._task.kube.get(paths.pod(namespace, name))
        except NotFound as error:
            if error.details.get("kind") != "pods":
                raise
            return None

    def _take_answers(self, raising=True):
        while not self._answers.empty():
            one, answer = self._answers.get()
            now = self._task.monotonic()
            if answer is None:
                self._rounds.accepted(one, now)
                self._evicted_of.add((pods.controller(one.pod) or {}).get("uid"))
            elif isinstance(answer, refusals.Refusal):
                self._rounds.refused(one, answer, now)
            elif raising:
                raise answer

    def _check_node(self):
        """The node must stay the one that was held, and stay held, as long as pods are evicted from it."""
        name = self._node["metadata"]["name"]
        node = next(iter(self._mirror.objects("node").values()), None)
        if node is None or node["metadata"]["uid"] != self._node["metadata"]["uid"]:
            raise Failed(f"The node {name} was deleted during its drain. Nothing more is evicted from it.")
        if (hold.is_cordoned(self._node) and not hold.is_cordoned(node)) or not hold.is_out(node):
            raise Failed(
                f"{name} was opened again by somebody else during its drain (uncordoned). Nothing more is evicted from it. "
                "Find out who did it (kubectl get node "
                f"{name} -o yaml --show-managed-fields), then hold it with gpuops.lifecycle.cordon and drain again."
            )

    def _notice_returns(self):
        """Successors that land on this node in spite of the hold (kubernetes-sigs nodewright PR #264, T38)."""
        for one in self._assessed:
            controller = (pods.controller(one.pod) or {}).get("uid")
            born = pods.parse_time(one.pod["metadata"]["creationTimestamp"])
            is_new = one.uid not in self._first and born >= self._server_started
            if is_new and controller and controller in self._evicted_of and one.way != "leave":
                self._returned.setdefault(controller, set()).add(one.uid)

    def returns(self, one):
        """How many successors of the pod's controller came back to this node."""
        return len(self._returned.get((pods.controller(one.pod) or {}).get("uid"), ()))

    def _report(self):
        self._reporter.report(self.left(), self._elapsed())

    def _elapsed(self):
        return self._task.monotonic() - self._started

    def results(self):
        """One dict per pod seen, as the module returns them."""
        there = {one.uid for one in self._assessed}
        return [self._result(one, uid in there) for uid, one in sorted(self._seen.items(), key=_by_label)]

    def _result(self, one, there):
        tries = self._rounds.of(one.uid)
        if not there:
            outcome = "evicted" if tries.accepted or tries.unanswered else "gone"
        elif one.way == "leave":
            outcome = "skipped"
        else:
            outcome = "failed" if self._is_hopeless(one) else "left"
        left = outcome in ("left", "failed")
        return {
            **view(one),
            "outcome": outcome,
            "attempts": tries.count,
            "blocked_by": progress.blocked_by(one, tries) if left else [],
            "last_error": tries.refusal.text if tries.refusal and left else "",
        }

    def left(self):
        """(assessment, tries, returns) of each pod that did not go."""
        return [(one, self._rounds.of(one.uid), self.returns(one)) for one in self._pending()]


def view(one):
    """What drain and drain_info both say of a pod."""
    metadata = one.pod["metadata"]
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "owner": pods.owner(one.pod),
        "verdict": one.verdict,
    }


def _by_label(item):
    return pods.label_of(item[1].pod), item[0]
