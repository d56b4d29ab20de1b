# `make plan` and `make test` set themselves up: a bare Python 3.11 and make are enough.
# A C++17 compiler is used if there is one; without it everything works, slower.

PYTHON ?= python3
VENV ?= .venv
SCENARIO ?= scenarios/quickstart.yaml
PLANNER_SHARED ?= ../shared

BIN := $(VENV)/bin
BUILT_FROM := pyproject.toml setup.py MANIFEST.in $(wildcard planner/kernels/native/*.?pp planner/kernels/*/native/*.?pp)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
SAY_KERNEL := $(BIN)/python -c 'import planner.kernels as k; print("installed with the " + k.STATUS)'

.PHONY: plan test lint benchmark accuracy clean

plan: $(VENV)/.installed
	$(BIN)/planner plan $(SCENARIO) -o plan.json

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m benchmark tests/benchmark

accuracy: $(VENV)/.installed-dev
	$(BIN)/python tools/accuracy.py $(PLANNER_SHARED)/data/silicon/closed_loop_means.csv

clean:
	rm -rf $(VENV) build dist *.egg-info plan.json planner/kernels/*.so planner/kernels/*/*.so

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BUILT_FROM) | $(VENV)/bin/python
	$(PIP) --editable .
	@$(SAY_KERNEL)
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(BUILT_FROM) | $(VENV)/bin/python
	$(PIP) --editable '.[dev]' --constraint requirements-dev.lock
	@$(SAY_KERNEL)
	@touch $(VENV)/.installed $@
