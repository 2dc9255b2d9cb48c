# Everything runs in VENV, which the first target that needs it creates. `make test PYTHON=python3.12 VENV=.venv312`
# takes another Python.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format bench sdist clean

help:
	@echo "make demo      corpus and dumps to datasets, on small samples: writes demo-output/ and shows it"
	@echo "make test      the test suite; 'make test-all' adds the slow tests"
	@echo "make lint      ruff, mypy and the table of imports; 'make format' lets ruff rewrite"
	@echo "make bench     every benchmark whose data is at hand"
	@echo "make sdist     dist/polyspan-*.tar.gz"
	@echo "make clean     removes everything that the other targets made"
	@echo "Each sets up what it needs in $(VENV), with $(PYTHON) (Python 3.10 to 3.13)."

setup: $(INSTALLED)

$(INSTALLED): setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || { \
		echo "Polyspan needs Python 3.10 to 3.13; $(PYTHON) is '$$($(PYTHON) --version 2>&1)'." \
			"Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version): once, a minute or two"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade -c constraints.txt pip setuptools
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[pipelines,dev]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/polyspan-data demo --output demo-output

test: $(INSTALLED)
	$(BIN)/python -m pytest -q

test-all: $(INSTALLED)
	$(BIN)/python -m pytest -q -m ''

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED)
	@for name in $(sort $(basename $(notdir $(wildcard benchmarks/bench_*.py)))); do \
		echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

sdist: $(INSTALLED)
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --sdist > /dev/null

clean:
	rm -rf $(VENV) demo-output build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
