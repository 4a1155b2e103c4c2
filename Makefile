PYTHON ?= python3
BIN := .venv/bin
# Recipes start several processes that load the same modules.
export PYTHONDONTWRITEBYTECODE :=
# Where commands run that need settings but no service: fixed secrets, a database of their own.
TEST_ENV := DJANGO_SETTINGS_MODULE=tests.settings

.DEFAULT_GOAL := help
.PHONY: help run node test test-all check mutations format bench soak chaos lock schema generators clean

help:  ## Show what there is to make.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

run: .venv/installed  ## Install, migrate and run the service with its worker.
	@exec $(BIN)/python -m relayer_service.local.run

node: tests/node/node_modules/installed  ## Run an Ethereum node of your own, to try relayers with.
	@test -e $< || { echo "Cannot start: Node.js with npm is needed." >&2; exit 1; }
	@echo "A Hardhat node at http://127.0.0.1:8545, chain id 31337; a block every second; the keys of its accounts are public. Ctrl-C ends it."
	@cd tests/node && BLOCK_MILLISECONDS=1000 HARDHAT_DISABLE_TELEMETRY_PROMPT=true exec node_modules/.bin/hardhat node --hostname 127.0.0.1 --port 8545

test: .venv/installed-dev tests/node/node_modules/installed  ## Run the tests on SQLite, and on PostgreSQL those that can differ there.
	@$(BIN)/python -m tests.run

test-all: .venv/installed-dev tests/node/node_modules/installed tests/generators/installed  ## Run those that take long too, as CI does.
	@$(BIN)/python -m tests.run --all

check: .venv/installed-dev  ## Lint, types, import rules, migrations, deployment checks, OpenAPI drift, mutation table, unused code.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python client/generate_sync.py --check
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(TEST_ENV) $(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python -m tests.check_migrations
	$(BIN)/python -m tests.check_deploy
	$(BIN)/python -m tests.check_schema
	$(BIN)/python -m tests.generators --check
	$(BIN)/python -m tests.mutations --check
	$(BIN)/python -m tests.check_unused

mutations: .venv/installed-dev tests/node/node_modules/installed  ## Break the product in one place after another: its tests must notice.
	$(BIN)/python -m tests.mutations

format: .venv/installed-dev  ## Put the code into its standard form.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: .venv/installed-dev  ## Write openapi.yaml and openapi-extensions.yaml anew.
	$(BIN)/python -m tests.check_schema --write

generators: .venv/installed-dev tests/generators/installed  ## Generate clients from both documents, compile and try them.
	@command -v java >/dev/null || { echo "Cannot run: Java is needed (Debian: default-jre-headless)." >&2; exit 1; }
	@test -e tests/generators/node_modules || { echo "Cannot run: Node.js with npm is needed." >&2; exit 1; }
	$(BIN)/python -m tests.generators

bench: .venv/installed-dev  ## Measure the service: AREA=lists|create|fees|..., all without it; FAST=1 for a look.
	$(BIN)/python -m benchmarks.run $(AREA) $(if $(FAST),--fast)

soak: .venv/installed-dev  ## Call the service for minutes while its processes are killed: MODE=transactions|client, LIAR=beside|alone|none, SECONDS=480, FAST=1.
	$(BIN)/python -m benchmarks.soak $(if $(MODE),--mode $(MODE)) $(if $(LIAR),--liar $(LIAR)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(FAST),--fast)

chaos: .venv/installed-dev tests/node/node_modules/installed  ## Kill workers at every step of sending transactions: SEEDS=50, FAST=1.
	$(BIN)/python -m tests.chaos $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FAST),--fast)

lock: .venv/installed-dev  ## Pin the dependencies anew.
	$(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --quiet --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra providers --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --quiet --output-file requirements-providers.lock
	$(BIN)/uv pip compile pyproject.toml --extra providers --group test --group check --universal --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements-dev.lock
	$(BIN)/uv pip compile tests/generators/requirements.in --universal --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --quiet --output-file tests/generators/requirements.lock

clean:  ## Remove what was installed and built; the data stays.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/node/node_modules
	rm -rf tests/generators/.venv tests/generators/node_modules tests/generators/installed

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Cannot start: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/installed: requirements.lock | .venv/bin/python
	@$(BIN)/python -m relayer_service.local.installation requirements.lock
	@touch $@

.venv/installed-dev: requirements-dev.lock | .venv/bin/python
	@$(BIN)/python -m relayer_service.local.installation requirements-dev.lock
	@touch $@ .venv/installed

# The Ethereum node of the tests; without npm, what needs it is skipped.
tests/node/node_modules/installed: tests/node/package-lock.json
	@if command -v npm >/dev/null; then \
	  cd tests/node && npm ci --ignore-scripts --no-audit --no-fund --silent && touch node_modules/installed; fi

# Generators of clients, apart from the service; without npm, what needs them is skipped.
tests/generators/installed: tests/generators/requirements.lock tests/generators/package-lock.json | .venv/bin/python
	@$(BIN)/python -m venv tests/generators/.venv
	@tests/generators/.venv/bin/python -m relayer_service.local.installation tests/generators/requirements.lock
	@if command -v npm >/dev/null; then cd tests/generators && npm ci --ignore-scripts --no-audit --no-fund --silent; fi
	@touch $@
