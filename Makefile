# Scale0. `make` alone lists what can be made.
#
# Everything runs from .venv/, which `make setup` builds from pyproject.toml and constraints.txt and keeps until one of
# them changes. PYTHON names the interpreter that the environment is built from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
BENCH_STAMP := $(VENV)/.bench-done
FUZZ_STAMP := $(VENV)/.fuzz-done
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
JOBS ?= 3

# Tests start hundreds of processes of ours. Each would compile all of it again where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types browser install-browser test-fast test-slow sim chaos fuzz bench clean

help: ## this list
	@echo "Scale0: start more workers, anywhere, and they are found, balanced and watched."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "New here? make demo"

setup: $(STAMP) ## build .venv/ with everything that development needs
	@:

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "error: no '$(PYTHON)' here; install Python 3.11 or newer, or say make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Scale0 needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1 | head -n 1); say make setup PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "error: this Python cannot make environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "making $(VENV)/ with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing what Scale0 needs (about a minute, once)"
	@$(PIP_INSTALL) --editable ".[dev]"
	@echo "keeping Spark's classes, so that it starts in a third of the time (about a minute, once)"
	@$(BIN)/python -m scale0_pipeline.faststart || true
	@touch $@
	@echo "ready: $(BIN)/scale0 --help"

$(BENCH_STAMP): $(STAMP)
	@echo "installing what the benchmarks compare with"
	@$(PIP_INSTALL) --editable ".[bench]"
	@touch $@

$(FUZZ_STAMP): $(STAMP)
	@echo "installing what leads the fuzzers by coverage"
	@$(PIP_INSTALL) --editable ".[fuzz]"
	@touch $@

demo: $(STAMP) ## two brokers, workers, a load, kills, the books balanced, and a report by Spark, in two minutes
	@$(BIN)/scale0 demo --report out/demo-report.html $(ARGS)

test: lint ## what must be green before a change goes in; types are checked while the tests begin
	@$(MAKE) --no-print-directory -j 2 types test-fast

lint: $(STAMP) ## style and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "error: not formatted; run $(BIN)/ruff format ." >&2; exit 1; }
	@echo "lint: good"

types: $(STAMP) ## strict types
	@$(BIN)/mypy

browser: ## a Chromium for the tests of the page, where one may be installed; without it they are skipped, loudly
	@for name in chromium-headless-shell chromium google-chrome; do command -v $$name && exit; done >/dev/null; \
		$(MAKE) --no-print-directory install-browser || \
		echo "NO CHROMIUM: the tests of the page are skipped. Install one: apt install chromium-headless-shell" >&2

install-browser:
	@command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
	@echo "installing Chromium for the tests of the page (a minute, once)"
	@[ "$$(id -u)" = 0 ] || run="sudo -n"; $$run apt-get update -qq && \
		for name in chromium-headless-shell chromium; do \
			DEBIAN_FRONTEND=noninteractive $$run apt-get install -y -qq --no-install-recommends $$name >/dev/null && break; done

test-fast: $(STAMP) browser ## the tests that take seconds
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(ARGS)

test-slow: $(STAMP) ## the tests that take minutes
	@$(BIN)/python -m pytest -n $(JOBS) -m slow $(ARGS)

sim: $(STAMP) ## networks in a simulator, with faults, on all cores; make sim ARGS="--for 30m --steps 10000"
	@$(BIN)/scale0 sim $(or $(ARGS),--for 2m)

chaos: $(STAMP) ## real faults in real processes, 500 cycles of them, in about 15 minutes; docs/chaos.md has the options
	@$(BIN)/python -m tests.chaos $(ARGS)

fuzz: $(FUZZ_STAMP) ## hostile input of every kind, led by coverage; make fuzz ARGS="--for 3600 --targets broker"
	@$(BIN)/python -m tests.fuzz $(ARGS)

bench: $(BENCH_STAMP) ## speed and memory against named peers, in one run
	@$(BIN)/python benchmarks/run.py $(ARGS)

clean: ## remove what was built, .venv/ included
	@rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@echo "clean"
