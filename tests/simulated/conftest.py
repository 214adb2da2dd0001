# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures of the tests that need a simulated cluster."""

from __future__ import annotations

import pytest

from tests.simulated.product import Product
from tests.simulated.serving import serving


def pytest_configure(config):
    config.addinivalue_line("markers", "scenario(name, speed=20, seed=0): what the cluster fixture serves")
    config.addinivalue_line("markers", "soak: takes many minutes; make soak runs it")


@pytest.fixture
def cluster(request, tmp_path):
    """A fresh simulated cluster (four-h100 at speed 20, unless marked otherwise), ended after the test."""
    marker = request.node.get_closest_marker("scenario")
    with serving(tmp_path, *(marker.args if marker else ()), **(marker.kwargs if marker else {})) as running:
        yield running


@pytest.fixture
def product(cluster):
    """The product on the test's cluster, with what it needs installed."""
    found = Product(cluster)
    found.install()
    yield found
    found.end()
