# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# One worker per core with single-threaded BLAS.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q \
	--numprocesses auto --maxprocesses 8 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format page reproduce bench docs demo-policies clean

help:  ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

# torch first and by itself, so that pip takes the pinned build.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) torch
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core  ## Install the core, compare bundled policies, print the path of the report
	$(BIN)/pivec demo --out pivec-demo

test: check  ## Install everything, check the code, run the tests
	$(PYTEST) -m "not slow" --doctest-modules --ignore-glob '*/conftest.py' reproduction src tests

test-slow: $(VENV)/.dev  ## Run the slow tests
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

page: $(VENV)/.dev  ## Rebuild the page's script after a change of its modules (needs node)
	@scripts/page/tools $(VENV)/node
	$(BIN)/python scripts/page/build.py $(VENV)/node

reproduce: $(VENV)/.dev  ## Reproduce the paper at small scale into reproduced/
	$(BIN)/python -m reproduction all --scale small

bench: $(VENV)/.dev  ## Measure; writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev  ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

demo-policies: $(VENV)/.dev  ## Train the demo policies again
	$(BIN)/python scripts/train_demo_policies.py

clean:  ## Remove generated files
	rm -rf $(VENV) site pivec-demo pivec-out build dist .mypy_cache .ruff_cache .pytest_cache
