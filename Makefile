# Everything a checkout can do. `make` alone prints the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
PYTEST ?= pytest -n 2

help:  ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

venv: .venv/run.stamp  ## set up .venv with what the collection and the simulated cluster need

.venv/run.stamp: requirements/run.txt tools/setup.sh
	@tools/setup.sh $(PYTHON) requirements/run.txt
	@touch $@

.venv/test.stamp: .venv/run.stamp requirements/test.txt
	@tools/setup.sh $(PYTHON) requirements/test.txt
	@touch $@

demo: venv  ## watch four simulated H100 nodes go through a driver upgrade
	python -m simulator run --speed 20 -- ansible-playbook -i inventories/demo playbooks/demo.yml

test: lint unit simulated sanity  ## linters, unit tests, the simulated cluster, ansible-test sanity

unit: .venv/test.stamp  ## decisions and parsers, without a cluster
	$(PYTEST) tests/unit

simulated: .venv/test.stamp  ## the real playbooks on the simulated cluster
	$(PYTEST) tests/contract tests/simulated -m "not soak"

soak: .venv/test.stamp  ## twenty upgrades whose controller is killed at a random moment
	$(PYTEST) tests/simulated -m soak

lint: .venv/test.stamp  ## ruff, shellcheck, ansible-lint, changelog and documentation linters
	ruff check .
	ruff format --check .
	shellcheck .ci/run tools/*.sh tests/kubectl/build.sh
	ansible-lint --offline
	antsibull-changelog lint
	antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .collections/ansible_collections/gpuops/lifecycle

sanity: .venv/test.stamp  ## ansible-test sanity on an export of the tree
	tools/sanity.sh

docs: .venv/test.stamp  ## the reference of modules, roles and plugins, into build/docs
	mkdir -p build/docs
	antsibull-docs collection --use-current --dest-dir build/docs --fail-on-error gpuops.lifecycle

build: .venv/run.stamp  ## the collection's tarball, into build/
	ansible-galaxy collection build --force --output-path build

clean:  ## remove everything that was made here
	rm -rf .venv .cache .collections .sim build .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help venv demo test unit simulated soak lint sanity docs build clean
