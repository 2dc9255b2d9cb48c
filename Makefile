# Everything runs in VENV, which the first target that needs it creates. `make test PYTHON=python3.12 VENV=.venv312`
# takes another Python.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
comma := ,
# The trainer has an environment of its own: neither package may need the other's libraries.
TRAINING_VENV ?= .venv-training
TRAINING_BIN := $(TRAINING_VENV)/bin
TRAINING_INSTALLED := $(TRAINING_VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup setup-training demo test test-pipelines test-training test-all lint format bench sdist clean

help:
	@echo "make demo      corpus and dumps to datasets, datasets to a tiny model, which answers a question: writes demo-output/"
	@echo "make test      all tests: test-pipelines, then test-training; 'make test-all' adds the slow ones"
	@echo "make lint      ruff, mypy and the table of imports; 'make format' lets ruff rewrite"
	@echo "make bench     every benchmark whose data is at hand"
	@echo "make sdist     dist/polyspan-*.tar.gz"
	@echo "make clean     removes everything that the other targets made"
	@echo "Each sets up what it needs in $(VENV), with $(PYTHON) (Python 3.10 to 3.13)."

setup: $(INSTALLED)
setup-training: $(TRAINING_INSTALLED)

# make_environment FOLDER, EXTRAS
define make_environment
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || { \
		echo "Polyspan needs Python 3.10 to 3.13; $(PYTHON) is '$$($(PYTHON) --version 2>&1)'." \
			"Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(1) with $$($(PYTHON) --version): once, a minute or two"
	@$(PYTHON) -m venv --clear $(1)
	@$(1)/bin/python -m pip install -qq --disable-pip-version-check --upgrade -c constraints.txt pip setuptools
	@$(1)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[$(2)]'
	@touch $@
endef

$(INSTALLED): setup.py pyproject.toml constraints.txt
	$(call make_environment,$(VENV),pipelines$(comma)dev)

$(TRAINING_INSTALLED): setup.py pyproject.toml constraints.txt
	$(call make_environment,$(TRAINING_VENV),training$(comma)test$(comma)lint)

demo: $(INSTALLED) $(TRAINING_INSTALLED)
	$(BIN)/polyspan-data demo --output demo-output
	$(TRAINING_BIN)/polyspan-train pretrain tiny_mpmr --data demo-output/anchor-mrc --output demo-output/tiny-mpmr --overwrite
	$(TRAINING_BIN)/polyspan-train finetune mpmr_squad --model demo-output/tiny-mpmr/model --output demo-output/questions \
		--train training/sample/questions.en.json --train-langs en --steps 60 --learning-rate 1e-3 --overwrite
	$(TRAINING_BIN)/polyspan-train evaluate demo-output/questions --task squad \
		--gold training/sample/questions.en.json training/sample/questions.vi.json --langs en vi
	echo '{"query": "Which is the smallest planet?", "context": "Mercury is the smallest planet, the nearest to the Sun."}' | \
		$(TRAINING_BIN)/polyspan-train predict demo-output/questions

test: test-pipelines test-training

test-pipelines: $(INSTALLED)
	$(BIN)/python -m pytest -q

test-training: $(TRAINING_INSTALLED)
	OMP_NUM_THREADS=1 $(TRAINING_BIN)/python -m pytest -q tests/schemas tests/training

test-all: $(INSTALLED) $(TRAINING_INSTALLED)
	$(BIN)/python -m pytest -q -m ''
	$(TRAINING_BIN)/python -m pytest -q -m '' tests/schemas tests/training

lint: $(INSTALLED) $(TRAINING_INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy -p schemas -p pipelines
	$(TRAINING_BIN)/mypy -p training
	$(BIN)/lint-imports --no-logo

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

BENCHMARKS := $(sort $(basename $(notdir $(wildcard benchmarks/bench_*.py))))

bench: demo
	@for name in $(filter-out bench_training_%,$(BENCHMARKS)); do \
		echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done
	@echo "== bench_training_tokens"; $(TRAINING_BIN)/python -m benchmarks.bench_training_tokens
	@for data in clism anchor-mrc; do \
		echo "== bench_training_data, $$data"; \
		$(TRAINING_BIN)/python -m benchmarks.bench_training_data demo-output/$$data || exit 1; done
	@echo "== bench_training_finetune"
	@$(TRAINING_BIN)/python -m benchmarks.bench_training_finetune --only windows prediction memory

sdist: $(INSTALLED)
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --sdist > /dev/null

clean:
	rm -rf $(VENV) $(TRAINING_VENV) demo-output build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
