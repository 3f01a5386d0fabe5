# Everything starts from here: `make help` lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
# One process for each core, each with one thread; `worksteal` leaves the tests of a file together while it can.
# Bytecode is kept, whatever the shell says: without it every process compiles all files and all tests anew.
PARALLEL := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format docs bench browser peers clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(DEMO): pyproject.toml constraints.txt  # the library alone
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	@touch $(DEMO)

$(READY): $(DEMO)  # what the tests, the benches and the other commands need
	$(INSTALL) '.[dev,exchange,play,serve]'
	@touch $(READY)

demo: $(DEMO)  ## learn to translate on this machine, then look at the attention (4 minutes with the installation)
	$(BIN)/regard demo

test: $(READY)  ## the fast tests
	$(PARALLEL)

test-slow: $(READY) browser  ## the slow tests: real data, whole trainings, a browser
	$(PARALLEL) -m slow tests/pairs
	$(BIN)/python -m pytest -m slow --ignore tests/pairs

check: $(READY)  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)  ## write the pages that are made from the code
	$(BIN)/python docs/make.py

bench: $(READY)  ## side by side with the peers, as ratios
	$(BIN)/regard bench

browser:  ## Chromium from the system's packages, for the tests of the page
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

peers:  ## an environment of its own for transformers' server, which `python -m bench serving` asks beside ours
	test -x .venv-transformers/bin/python || $(PYTHON) -m venv .venv-transformers
	.venv-transformers/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt 'transformers[serving]'

clean:  ## remove what the targets made (not your runs)
	rm -rf $(VENV) .venv-transformers .pytest_cache .ruff_cache .mypy_cache .hypothesis
