# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selectors as tables."""

from __future__ import annotations

import pytest

from simulator.errors import ApiError
from simulator.resources import built_in
from simulator.selectors import by_object, parse_fields, parse_labels

PODS = next(resource for resource in built_in() if resource.plural == "pods")
POD = {"metadata": {"name": "p", "labels": {"app": "web", "gpu": "8"}}, "spec": {"nodeName": "n", "hostNetwork": True}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=web", True), ("app==web", True), ("app=api", False), ("app!=api", True), ("app!=web", False),
        ("app", True), ("tier", False), ("!tier", True), ("!app", False), ("tier!=x", True),
        ("app in (web, api)", True), ("app in (api)", False), ("app notin (web)", False), ("tier notin (x)", True),
        ("app=web,gpu=8", True), ("app=web,gpu=4", False), ("app in (web),gpu", True), ("", True),
    ],
)  # fmt: skip
def test_label_selectors(text, matches):
    assert parse_labels(text)(POD) == matches


@pytest.mark.parametrize("text", ["a in b", "app=web,a in b", "app;web"])
def test_broken_label_selectors_are_refused(text):
    with pytest.raises(ApiError) as refused:
        parse_labels(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("spec.nodeName=n", True), ("spec.nodeName!=n", False), ("spec.nodeName==n,metadata.name=p", True),
        ("metadata.name=other", False), ("spec.hostNetwork=true", True), ("status.phase=Running", False),
        ("status.phase!=Running", True),
    ],
)  # fmt: skip
def test_field_selectors(text, matches):
    assert parse_fields(PODS, text)(POD) == matches


@pytest.mark.parametrize("text", ["spec.bogus=1", "spec.nodeName"])
def test_other_fields_are_refused(text):
    with pytest.raises(ApiError) as refused:
        parse_fields(PODS, text)
    assert refused.value.code == 400


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False), ({}, True), ({"matchLabels": {"app": "web"}}, True), ({"matchLabels": {"app": "api"}}, False),
        (expression("app", "In", "web"), True), (expression("app", "NotIn", "web"), False),
        (expression("tier", "NotIn", "x"), True), (expression("app", "Exists"), True),
        (expression("app", "DoesNotExist"), False), (expression("gpu", "Gt", "4"), True),
        (expression("gpu", "Lt", "4"), False), (expression("tier", "Gt", "4"), False),
    ],
)  # fmt: skip
def test_selectors_of_budgets_and_workloads(selector, matches):
    assert by_object(selector)(POD) == matches
