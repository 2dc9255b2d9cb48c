# Targets create the environments VENV and TRAINING_VENV when they need them. `make test PYTHON=python3.12 VENV=.venv312`
# uses another Python. In a read-only checkout: make demo VENV=/tmp/a TRAINING_VENV=/tmp/b DEMO=/tmp/c
PYTHON ?= python3
VENV ?= .venv
# Two environments, because neither pipelines nor training may need the libraries of the other.
TRAINING_VENV ?= .venv-training
DEMO ?= demo-output
BIN := $(VENV)/bin
TRAINING_BIN := $(TRAINING_VENV)/bin
comma := ,
empty :=
# Escapes the blanks of a name, so that make reads it as one name.
one = $(subst $(empty) $(empty),\ ,$(1))
INSTALLED := $(call one,$(VENV)/.installed)
TRAINING_INSTALLED := $(call one,$(TRAINING_VENV)/.installed)
# The folder to install from: the checkout, or a copy of it if the checkout is read-only.
WRITABLE := $(shell test -w . && echo yes)
SOURCE := $(if $(WRITABLE),.,$(VENV)/source)
TRAINING_SOURCE := $(if $(WRITABLE),.,$(TRAINING_VENV)/source)

.DEFAULT_GOAL := help
.PHONY: help setup setup-training demo test test-pipelines test-training test-all lint format sanitize bench sdist clean

help:
	@echo "make demo      corpus and dumps to datasets, datasets to a tiny model, which answers a question: writes $(DEMO)/"
	@echo "make test      all tests: test-pipelines, then test-training; 'make test-all' adds the slow ones"
	@echo "make lint      ruff, mypy and the table of imports; 'make format' lets ruff rewrite"
	@echo "make sanitize  the word aligner's tests, its C++ under address, undefined-behaviour and thread sanitizers"
	@echo "make bench     every benchmark whose data is there"
	@echo "make sdist     dist/polyspan-*.tar.gz"
	@echo "make clean     removes everything that the other targets made"
	@echo "Each sets up what it needs in $(VENV), with $(PYTHON) (Python 3.10 to 3.13)."

setup: $(INSTALLED)
setup-training: $(TRAINING_INSTALLED)

# Says what the machine lacks before anything is downloaded.
define check_machine
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || { \
		echo "Polyspan needs Python 3.10 to 3.13; $(PYTHON) is '$$($(PYTHON) --version 2>&1)'." \
			"Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@missing=; packages=; \
	lacks() { missing="$$missing $$1;"; packages="$$packages $$2"; }; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		lacks "$(PYTHON) cannot make virtual environments" python3-venv; \
	$(PYTHON) -c 'import os, sysconfig as c; os.stat(c.get_config_var("INCLUDEPY") + "/Python.h")' 2>/dev/null || \
		lacks "$(PYTHON) has no headers (Python.h) to compile the word aligner with" python3-dev; \
	compiler=$${CXX:-$$($(PYTHON) -c 'import sysconfig as c; print(c.get_config_var("CXX") or "c++")')}; \
	command -v $${compiler%% *} >/dev/null || lacks "there is no C++ compiler ($${compiler%% *})" g++; \
	[ -z "$$missing" ] || { echo "Polyspan cannot be set up:$$missing on Debian, apt-get install$$packages" >&2; exit 1; }
endef

# make_environment FOLDER, EXTRAS, SOURCE
define make_environment
	$(check_machine)
	@echo "Setting up $(1) with $$($(PYTHON) --version): once, some minutes; README.md says what is downloaded"
	@$(PYTHON) -m venv --clear "$(1)"
	@$(if $(WRITABLE),true,mkdir "$(3)" && $(call copy_to,$(3)))
	@"$(1)/bin/python" -m pip install -qq --disable-pip-version-check --upgrade -c constraints.txt pip setuptools
	@cd "$(3)" && "$(if $(filter .,$(3)),$(1),..)/bin/python" -m pip install -qq --disable-pip-version-check \
		-c constraints.txt -e '.[$(2)]'
	@touch "$@"
endef

COPIED := setup.py pyproject.toml constraints.txt MANIFEST.in LICENSE README.md CONTRIBUTING.md CHANGELOG.md Makefile \
	.ci .pre-commit-config.yaml schemas pipelines training tests benchmarks docs
copy_to = if [ -d "$(1)" ]; then cp -R $(COPIED) "$(1)" && chmod -R u+w "$(1)"; fi
# Copies a read-only checkout again, with what has changed.
up_to_date = $(if $(WRITABLE),,{ $(call copy_to,$(SOURCE)); } && { $(call copy_to,$(TRAINING_SOURCE)); } && )

$(INSTALLED): setup.py pyproject.toml constraints.txt
	$(call make_environment,$(VENV),pipelines$(comma)dev,$(SOURCE))

$(TRAINING_INSTALLED): setup.py pyproject.toml constraints.txt
	$(call make_environment,$(TRAINING_VENV),training$(comma)test$(comma)lint,$(TRAINING_SOURCE))

# trained NAME, INPUTS, COMMAND: runs the command, unless this version has already made the model from the same inputs.
define trained
	@made="$$("$(TRAINING_BIN)/polyspan-train" --version && cat $(2) | cksum && echo '$(3)')" || exit; \
	if [ -e "$(DEMO)/$(1)/model/polyspan.json" ] && [ "$$made" = "$$(cat "$(DEMO)/.made-$(1)" 2>/dev/null)" ]; then \
		echo "$(DEMO)/$(1) is complete: nothing to do"; \
	else \
		echo '$(3)'; $(3) && echo "$$made" > "$(DEMO)/.made-$(1)"; \
	fi
endef

QUESTIONS := training/sample/questions

demo: $(INSTALLED) $(TRAINING_INSTALLED)
	@$(up_to_date)true
	"$(BIN)/polyspan-data" demo --output "$(DEMO)"
	$(call trained,tiny-mpmr,"$(DEMO)/anchor-mrc/manifest.json",\
		"$(TRAINING_BIN)/polyspan-train" pretrain tiny_mpmr --data "$(DEMO)/anchor-mrc" --output "$(DEMO)/tiny-mpmr" --overwrite)
	$(call trained,questions,"$(DEMO)/tiny-mpmr/model/polyspan.json" $(QUESTIONS).en.json,\
		"$(TRAINING_BIN)/polyspan-train" finetune mpmr_squad --model "$(DEMO)/tiny-mpmr/model" --output "$(DEMO)/questions" \
		--train $(QUESTIONS).en.json --train-langs en --steps 60 --learning-rate 1e-3 --overwrite)
	"$(TRAINING_BIN)/polyspan-train" evaluate "$(DEMO)/questions" --task squad \
		--gold $(QUESTIONS).en.json $(QUESTIONS).vi.json --langs en vi
	echo '{"query": "Which is the smallest planet?", "context": "Mercury is the smallest planet, the nearest to the Sun."}' | \
		"$(TRAINING_BIN)/polyspan-train" predict "$(DEMO)/questions"

test: test-pipelines test-training

# Changes to the source folder; $$bin is the absolute path of the environment's programs.
in_source = $(up_to_date)bin="$$(cd "$(1)/bin" && pwd)" && cd "$(2)"

test-pipelines: $(INSTALLED)
	$(call in_source,$(VENV),$(SOURCE)) && "$$bin/python" -m pytest -q

test-training: $(TRAINING_INSTALLED)
	$(call in_source,$(TRAINING_VENV),$(TRAINING_SOURCE)) && \
		OMP_NUM_THREADS=1 "$$bin/python" -m pytest -q tests/schemas tests/training

test-all: $(INSTALLED) $(TRAINING_INSTALLED)
	$(call in_source,$(VENV),$(SOURCE)) && "$$bin/python" -m pytest -q -m ''
	$(call in_source,$(TRAINING_VENV),$(TRAINING_SOURCE)) && \
		"$$bin/python" -m pytest -q -m '' tests/schemas tests/training

lint: $(INSTALLED) $(TRAINING_INSTALLED)
	"$(BIN)/ruff" check
	"$(BIN)/ruff" format --check
	"$(BIN)/mypy" -p schemas -p pipelines
	"$(TRAINING_BIN)/mypy" -p training
	"$(BIN)/lint-imports" --no-logo

format: $(INSTALLED)
	"$(BIN)/ruff" check --fix
	"$(BIN)/ruff" format

sanitize: $(INSTALLED)
	.ci/sanitize "$(BIN)/python"

BENCHMARKS := $(sort $(basename $(notdir $(wildcard benchmarks/bench_*.py))))

bench: demo
	@for name in $(filter-out bench_training_%,$(BENCHMARKS)); do \
		echo "== $$name"; "$(BIN)/python" -m benchmarks.$$name || exit 1; done
	@echo "== bench_startup, the trainer"; "$(TRAINING_BIN)/python" -m benchmarks.bench_startup
	@echo "== bench_training_tokens"; "$(TRAINING_BIN)/python" -m benchmarks.bench_training_tokens
	@for data in clism anchor-mrc; do \
		echo "== bench_training_data, $$data"; \
		"$(TRAINING_BIN)/python" -m benchmarks.bench_training_data "$(DEMO)/$$data" || exit 1; done
	@echo "== bench_training_finetune"
	@"$(TRAINING_BIN)/python" -m benchmarks.bench_training_finetune --only windows prediction memory

sdist: $(INSTALLED)
	@rm -rf dist
	@"$(BIN)/python" -m build --no-isolation --sdist > /dev/null

clean:
	rm -rf "$(VENV)" "$(TRAINING_VENV)" "$(DEMO)" build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
