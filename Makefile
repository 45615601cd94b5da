# Works on a bare machine with python >= 3.11 and make: everything else is
# installed into .venv, from pinned and hashed requirements.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
PYTEST_ARGS ?= -n auto

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

# --- installation: stamp files make a second run instant ---------------------

$(VENV)/.tools: requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "memdb needs python >= 3.11; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml $(VENV)/.tools
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r $<
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r $<
	@touch $@

.PHONY: venv
venv: $(VENV)/.dev ## Install everything a developer needs into .venv

# --- the product -------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.runtime ## Store a conversation, ask five questions, show the sources
	$(BIN)/memdb demo

.PHONY: bench
bench: $(VENV)/.runtime ## Measure retrieval: make bench DATA="a.jsonl.gz b.jsonl.gz"
	@test -n "$(DATA)" || { echo 'Name the data: make bench DATA="a.jsonl.gz b.jsonl.gz"' >&2; exit 2; }
	$(BIN)/memdb bench retrieval $(DATA)

# --- development -------------------------------------------------------------

.PHONY: test
test: $(VENV)/.dev ## Run the tests: make test PYTEST_ARGS="-k recall"
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: server-test
server-test: $(VENV)/.dev ## As root on Debian: run the suites on PostgreSQL 18 and 17 with pg_cron and AGE
	$(BIN)/python -m tests.server.run 18 $(PYTEST_ARGS)
	$(BIN)/python -m tests.server.run 17 $(PYTEST_ARGS)

.PHONY: api-fuzz
api-fuzz: $(VENV)/.dev ## Ask the service what its OpenAPI document allows, and much that it does not
	MEMDB_FUZZ_EXAMPLES=$${MEMDB_FUZZ_EXAMPLES:-40} $(BIN)/python -m pytest tests/api/test_fuzz.py

.PHONY: attack
attack: $(VENV)/.dev ## Attack the walls between tenants and namespaces with 10,000 requests, and as many calls in SQL
	MEMDB_ATTACK_CALLS=$${MEMDB_ATTACK_CALLS:-10000} $(BIN)/python -m pytest \
	  tests/api/test_attack.py tests/sql/test_05_attack.py tests/sql/test_05_walls.py $(PYTEST_ARGS)

.PHONY: reliability
reliability: $(VENV)/.dev ## Kill the server 30 times under load, and whatever else goes wrong
	MEMDB_RELIABILITY_KILLS=$${MEMDB_RELIABILITY_KILLS:-30} $(BIN)/python -m pytest tests/reliability $(PYTEST_ARGS)

CONFORMANCE := .venv-conformance

$(CONFORMANCE)/.done: requirements/conformance.txt pyproject.toml $(VENV)/.tools
	test -x $(CONFORMANCE)/bin/python || $(PYTHON) -m venv $(CONFORMANCE)
	$(UV) pip install --quiet --python $(CONFORMANCE)/bin/python --require-hashes -r $<
	$(UV) pip install --quiet --python $(CONFORMANCE)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: conformance
conformance: $(CONFORMANCE)/.done ## Check the adapters beside their frameworks, and run the suites of others
	$(CONFORMANCE)/bin/pyright -p tests/adapters/pyright.json
	# A suite of others is one test here, and may take longer than one of ours.
	MEMDB_CONFORMANCE=1 $(CONFORMANCE)/bin/python -m pytest -o faulthandler_timeout=1800 \
	  tests/adapters tests/contract/test_docs.py $(PYTEST_ARGS)

SUITES := .venv-suites

$(SUITES)/.done: requirements/suites.txt pyproject.toml $(VENV)/.tools
	test -x $(SUITES)/bin/python || $(PYTHON) -m venv $(SUITES)
	$(UV) pip install --quiet --python $(SUITES)/bin/python --require-hashes -r $<
	$(UV) pip install --quiet --python $(SUITES)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: suites
suites: $(SUITES)/.done ## Check the adapters for LangChain and LangGraph by the suites of their makers that are packages
	$(SUITES)/bin/python -m pytest \
	  tests/adapters/test_langchain.py tests/adapters/test_langgraph.py $(PYTEST_ARGS)

DOCS := .venv-docs

$(DOCS)/.done: requirements/docs.txt pyproject.toml $(VENV)/.tools
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(UV) pip install --quiet --python $(DOCS)/bin/python --require-hashes -r $<
	$(UV) pip install --quiet --python $(DOCS)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: docs
docs: $(DOCS)/.done ## Build the documentation into build/site
	$(DOCS)/bin/python -m tests.contract.docs_site build/docs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict -f build/docs/mkdocs.yml

.PHONY: lint
lint: $(VENV)/.dev ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

.PHONY: golden
golden: $(VENV)/.dev ## Rewrite what is generated: sql/schema.golden.sql, the table of error codes
	$(BIN)/python -m tests.migrations.golden
	$(BIN)/python -m tests.contract.error_table

.PHONY: freeze
freeze: $(VENV)/.dev ## At a release: add the hashes of new revisions to migrations/frozen.txt
	$(BIN)/python -m tests.migrations.frozen

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --custom-compile-command "make requirements"

.PHONY: requirements
requirements: $(VENV)/.tools ## Pin the newest allowed releases into requirements/*.txt
	$(COMPILE) --upgrade requirements/tools.in -o requirements/tools.txt
	$(COMPILE) --upgrade pyproject.toml --extra embedded --extra local --extra server \
	  -o requirements/runtime.txt
	$(COMPILE) --upgrade pyproject.toml --extra dev --extra embedded --extra local --extra server \
	  -c requirements/runtime.txt -o requirements/dev.txt
	$(COMPILE) --upgrade pyproject.toml --extra dev --extra embedded --extra local --extra server \
	  --extra conformance -o requirements/conformance.txt
	$(COMPILE) --upgrade pyproject.toml --extra suites -c requirements/conformance.txt \
	  -o requirements/suites.txt
	$(COMPILE) --upgrade pyproject.toml --extra docs --extra server -c requirements/runtime.txt \
	  -o requirements/docs.txt
