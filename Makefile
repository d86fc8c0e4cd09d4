# `make demo` and `make test` set up everything they need in .venv; nothing else has to be run first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles a module when it is first imported; to compile all of 4 GB takes a minute, and few are. It must be
# allowed to keep the result, or each process of the tests would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
PIP_OPTIONS := --quiet --disable-pip-version-check --no-compile
PIP := $(BIN)/python -m pip install $(PIP_OPTIONS) --constraint constraints.txt

.PHONY: demo test test-all lint types kernels docs bench bench-check reproduce figures screenshots clean
.PHONY: attack coverage linkcheck mutation-check release-check test-minimum test-latest

demo: $(VENV)/.demo-installed
	$(BIN)/prorec demo

# Files go to workers as a whole, and in the order of tests/conftest.py: conftest.py says why.
PYTEST := $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -rs

ifdef PKG
test: $(VENV)/.all-installed  # make test PKG=models: everything about one package
	$(PYTEST) tests/$(PKG) src/prorec/$(PKG)
else
test:  # all but the slow tests; tests/conftest.py lists those
	$(MAKE) -j 2 --output-sync lint types kernels
	$(PYTEST) -m "not slow"
endif

# Wheel, sdist and the lowest versions of dependencies, each in an environment of its own, while .venv is installed and
# mypy runs: each of these uses one core, and the long ones start first. Then the whole suite, which uses two.
test-all:
	$(MAKE) -j 2 --output-sync $(VENV)/.all-installed release-check test-minimum types kernels lint
	$(PYTEST) --durations=10

lint: $(VENV)/.lint-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=src $(BIN)/lint-imports

types: $(VENV)/.all-installed
	$(BIN)/mypy

kernels: $(VENV)/.all-installed  # compiles what most tests need while mypy runs; else each worker would
	$(BIN)/python -c "from prorec import *; ProRec('nce').fit(make_cinema(60, 50).interactions, track_loss=True)"

docs: $(VENV)/.docs-installed
	$(BIN)/python -m sphinx -b html -j 1 -W --keep-going docs build/docs/html

bench: $(VENV)/.all-installed
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.history

bench-check: $(VENV)/.all-installed  # for some of them: make bench-check ONLY="metrics models"
	$(BIN)/python -m benchmarks --check $(if $(ONLY),--only $(ONLY))

# Fuzzers, kills and races; a failure names its seed. For less: make attack MINUTES=5 ONLY="logs options"
# In pieces: make attack MINUTES=5 OUT=build/attack.json, again and again
attack: $(VENV)/.all-installed
	$(BIN)/python -m tests.attack --minutes $(or $(MINUTES),60) $(if $(ONLY),--only $(ONLY)) $(if $(OUT),--out $(OUT))

reproduce: $(VENV)/.all-installed
	$(BIN)/python -m reproduction all --out results/

screenshots: $(VENV)/.all-installed
	PROREC_SCREENSHOTS=docs/figures $(BIN)/pytest -q tests/report/test_in_browser.py -k screenshots

figures: $(VENV)/.all-installed
	$(BIN)/python docs/figures/cinema_curves.py
	PYTHONPATH=. $(BIN)/python docs/figures/transport_time.py

coverage: $(VENV)/.all-installed  # with branches; the floor is fail_under in pyproject.toml
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html:build/coverage
	$(BIN)/python tools/coverage_by_package.py

mutation-check: $(VENV)/.all-installed  # breaks ten functions in a copy of the tree, and shows which tests notice
	$(BIN)/python tools/mutation_check.py

linkcheck: $(VENV)/.docs-installed  # needs the internet
	$(BIN)/python -m sphinx -b linkcheck -q docs build/docs/linkcheck

release-check:  # builds, looks into the files, installs the wheel in a fresh environment, tests it there
	$(PYTHON) -m venv --clear build/$@
	build/$@/bin/python -m pip install $(PIP_OPTIONS) --constraint constraints.txt build hatchling packaging  # the extra release
	build/$@/bin/python tools/release_check.py

# The smoke tests with the lowest versions of dependencies that pyproject.toml allows, and with the newest that exist.
# A warning of an old dependency about another one is not ours.
test-minimum: INSTALL = --constraint constraints-minimum.txt
test-minimum: WARNINGS = -W ignore::DeprecationWarning
test-latest: INSTALL = --upgrade
test-minimum test-latest:
	$(PYTHON) -m venv --clear build/$@
	build/$@/bin/python -m pip install $(PIP_OPTIONS) $(INSTALL) ".[emd,report]" hypothesis pandas polars pytest
	build/$@/bin/python -m pytest -q $(WARNINGS) @tests/smoke.txt

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lint-installed: constraints.txt | $(BIN)/python
	$(PIP) import-linter ruff
	touch $@

$(VENV)/.demo-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[report]"
	touch $@

$(VENV)/.docs-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[report,docs]"
	touch $@ $(VENV)/.demo-installed

$(VENV)/.all-installed: pyproject.toml constraints.txt | $(VENV)/.lint-installed  # one pip at a time in .venv
	$(PIP) --editable ".[all,dev]"
	touch $@ $(VENV)/.demo-installed $(VENV)/.docs-installed $(VENV)/.lint-installed

clean:
	rm -rf $(VENV) build dist
