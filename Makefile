# Every target sets up what it needs: Python >= 3.11 with venv and this make are enough on a fresh machine.

VENV ?= .venv
BIN := $(VENV)/bin
# Test processes at once; each of them holds an XLA client.
TEST_JOBS ?= 2
PYTEST_ARGS ?=

# The first of these that runs (a version manager's shim may be there and fail), is new enough and can make an environment.
PYTHON ?= $(shell for candidate in python3.13 python3.12 python3.11 python3; do \
	if $$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$candidate; break; fi; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench docs clean

help:
	@echo "make demo    train a small model on handwritten digits, export it, run it on two backends"
	@echo "make test    run the test suite"
	@echo "make lint    check style and types"
	@echo "make bench   measure the budgets beside jax, and the interpreter beside XLA"
	@echo "make docs    write the operation reference to docs, the API reference to build/docs"
	@echo "make clean   remove $(VENV) and everything built"

demo: $(VENV)/.installed-demo
	@$(BIN)/python examples/digits.py

test: $(VENV)/.installed-test
	@$(BIN)/python -m pytest -q -n $(TEST_JOBS) $(PYTEST_ARGS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict xlapy

bench: $(VENV)/.installed-test
	@$(BIN)/python benchmarks/budgets.py
	@$(BIN)/python benchmarks/interpreter.py

docs: $(VENV)/.installed-docs
	$(BIN)/python docs/generate.py
	$(BIN)/pdoc --docformat numpy --output-directory build/docs xlapy

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "xlapy needs Python >= 3.11 with venv (on Debian: python3-venv); set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra; a changed pyproject.toml installs again.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
