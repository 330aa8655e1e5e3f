# Two commands for newcomers, on a machine with just Python 3.11 or newer: `make run` and `make test`.
# Two more for us: `make check` (lint, types, floors, tests) and `make e2e` (real vLLM, real opencode).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test check e2e bench
.DEFAULT_GOAL := run

$(STAMP): pyproject.toml constraints.txt wizard/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "vllm-opencode needs Python 3.11 or newer. Name it: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: $(STAMP)  ## The wizard; without a terminal the rehearsed chain for a DGX Spark.
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/vllm-opencode; \
	else exec $(BIN)/vllm-opencode --simulate gb10 setup --yes; fi

test: $(STAMP)  ## As many at once as there are cores.
	$(BIN)/python -m pytest -n auto

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto

e2e: $(STAMP)  ## Two at once: a real vLLM takes 3 GB of memory.
	$(BIN)/python -m pytest tests/e2e -n 2 --dist loadgroup --no-loadscope-reorder -rs --durations 10

bench: $(STAMP)
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.log_scan
	$(BIN)/python -m benchmarks.live_feed
