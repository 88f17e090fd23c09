# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One worker a core, a test at a time each; more threads inside would only stand in line.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q \
	--numprocesses auto --maxprocesses 8 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format page bench docs demo-policies clean

help:  ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

# torch first and by itself, so that pip takes the pinned build.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --constraint constraints.txt torch
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core  ## Install the core, compare the policies that ship with it, name the report
	$(BIN)/pivec demo --out pivec-demo

test: check  ## Install everything, check the code, run the tests
	$(PYTEST) -m "not slow" --doctest-modules --ignore-glob '*/conftest.py' src tests reproduction

test-slow: $(VENV)/.dev  ## Run the tests that take long
	$(PYTEST) -m slow

check: $(VENV)/.dev  ## Format, lint, types, order of the layers, the page's script
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@scripts/page/check $(VENV)/node

format: $(VENV)/.dev  ## Format the code, mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

page: $(VENV)/.dev  ## Make the page's script anew, after a change of its modules (needs node)
	@scripts/page/tools $(VENV)/node
	$(BIN)/python scripts/page/build.py $(VENV)/node

bench: $(VENV)/.dev  ## Measure; writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev  ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

demo-policies: $(VENV)/.dev  ## Train the policies of the demo anew
	$(BIN)/python scripts/train_demo_policies.py

clean:  ## Remove what was made
	rm -rf $(VENV) site pivec-demo pivec-out build dist .mypy_cache .ruff_cache .pytest_cache
