# `make demo` and `make test` set up everything they need in .venv; nothing else has to be run first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types tests docs bench bench-check reproduce figures screenshots clean

demo: $(VENV)/.demo-installed
	$(BIN)/prorec demo

test: lint types tests

lint: $(VENV)/.all-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.all-installed
	$(BIN)/mypy

tests: $(VENV)/.all-installed
	$(BIN)/pytest -q -n 2 --dist loadfile -rs  # so that each cluster, browser and page is made once

docs: $(VENV)/.all-installed
	$(BIN)/python -m sphinx -b html -j 1 -W --keep-going docs build/docs/html

bench: $(VENV)/.all-installed
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.history

bench-check: $(VENV)/.all-installed  # for some of them: make bench-check ONLY="metrics models"
	$(BIN)/python -m benchmarks --check $(if $(ONLY),--only $(ONLY))

reproduce: $(VENV)/.all-installed
	$(BIN)/python -m reproduction all --out results/

screenshots: $(VENV)/.all-installed
	PROREC_SCREENSHOTS=docs/figures $(BIN)/pytest -q tests/report/test_in_browser.py -k screenshots

figures: $(VENV)/.all-installed
	$(BIN)/python docs/figures/cinema_curves.py
	PYTHONPATH=. $(BIN)/python docs/figures/transport_time.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[report]"
	touch $@

$(VENV)/.all-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable ".[all,dev,docs]"
	touch $@ $(VENV)/.demo-installed

clean:
	rm -rf $(VENV) build dist
