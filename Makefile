# Every target does its own set-up on a fresh machine; what is up to date is not done again.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
VENV_TRITON := .venv-triton
UV := .tools/uv/bin/uv
BIN := $(VENV)/bin
PACKAGES := telemetry collectors control signin history signals triage experiments charts sandbox grafana prometheus
TYPED := $(PACKAGES) settings.py runtime.py replay.py server.py app.py
PYTEST := $(BIN)/python -m pytest
PROMTOOL := .tools/prometheus/usr/bin/promtool

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.ready $(VENV_TRITON)/.ready ## Install the app, its tools and the embedded Triton (no root needed)

.PHONY: run
run: platform setup ## Start the dashboard with NVIDIA's real tritonserver and example models; Ctrl-C ends both
	@exec $(BIN)/python -m sandbox run

.PHONY: test
test: setup $(VENV)/.browser .tools/prometheus/.ready ## Run every test: unit, pages, rules, real Triton, real Prometheus, real browser
	@bash tools/suite.sh

.PHONY: check
check: $(VENV)/.ready .tools/prometheus/.ready ## Format, lint, types, import directions, generated files, promtool
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.generated --check
	$(PROMTOOL) check rules prometheus/rules/*.yml
	$(PROMTOOL) check config --syntax-only prometheus/prometheus.yml

.PHONY: generate
generate: $(VENV)/.ready ## Rewrite every generated file (signal reference, settings reference, runbooks)
	$(BIN)/python -m tools.generated

.PHONY: rules
rules: $(VENV)/.ready ## Rewrite prometheus/rules/ from signals/ and triage/rules/
	$(BIN)/python -m prometheus.builder

.PHONY: boards
boards: $(VENV)/.ready ## Rewrite grafana/dashboards/ from signals/ and grafana/board_*.py
	$(BIN)/python -m grafana

.PHONY: format
format: $(VENV)/.ready ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: setup ## Benchmarks: page reader, ring memory, report time, load generator; figures, not tests
	$(BIN)/python -m benchmarks.exposition
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.exporter
	$(BIN)/python -m benchmarks.load_generator

.PHONY: trial
trial: setup .tools/prometheus/.ready ## Five minutes of boards, rules and app on the real thing; prints the live difference per signal
	TRIAL_SECONDS=300 $(PYTEST) -q tests/integration/test_trial.py

.PHONY: soak
soak: setup ## Half an hour of the whole product under traffic and visitors: how memory, threads, descriptors grow
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30)

.PHONY: bench-triage
bench-triage: setup ## Every fault and healthy situation of the laboratory on the real server; one JSON line each
	$(BIN)/python -m benchmarks.triage

.PHONY: screenshots
screenshots: setup $(VENV)/.browser ## Take every page's screenshots on the real sandbox into docs/screenshots/
	$(BIN)/python -m tools.screenshots

.PHONY: up
up: ## Start the GPU stack with docker compose; writes an .env with random secrets if there is none
	$(PYTHON) -m tools.environment_file
	docker compose up --build

.PHONY: down
down: ## Stop the GPU stack
	docker compose down

.PHONY: lock
lock: $(UV) ## Resolve the dependencies anew into requirements/*.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		requirements/bootstrap.in -o requirements/bootstrap.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		pyproject.toml -o requirements/app.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		pyproject.toml --group dev -c requirements/app.lock -o requirements/dev.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		pyproject.toml --extra grpc -c requirements/app.lock -o requirements/grpc.lock
	$(UV) pip compile -q --python-platform x86_64-manylinux_2_35 --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url requirements/triton.in -o requirements/triton.lock
	$(UV) pip compile -q --python-version 3.12 --generate-hashes --no-header --no-emit-index-url \
		-c requirements/triton.lock requirements/models.in -o requirements/models.lock

.PHONY: licences
licences: setup ## Rewrite docs/licences.md from the installed packages
	$(BIN)/python -m tools.licences

.PHONY: platform
platform:
	@bash tools/platform.sh

$(UV): requirements/bootstrap.lock
	@bash tools/python.sh "$(PYTHON)"
	@echo "setup 1/3: uv, the installer"
	@"$(PYTHON)" -m venv .tools/uv
	@.tools/uv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	@touch $(UV)

$(VENV)/.ready: requirements/dev.lock | $(UV)
	@echo "setup 2/3: the app and its tools into $(VENV) (about 500 MB)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(UV) pip sync --quiet --require-hashes --python $(BIN)/python requirements/dev.lock
	@touch $@

$(VENV_TRITON)/.ready: requirements/triton.lock | $(UV)
	@echo "setup 3/3: NVIDIA's tritonserver and the example models' libraries into $(VENV_TRITON) (about 500 MB)"
	@test -x $(VENV_TRITON)/bin/python || "$(PYTHON)" -m venv $(VENV_TRITON)
	@$(UV) pip sync --quiet --require-hashes --python $(VENV_TRITON)/bin/python requirements/triton.lock
	@touch $@

$(VENV)/.browser: tools/chromium.sh | $(VENV)/.ready
	@bash tools/chromium.sh $(BIN)/python
	@touch $@

.tools/prometheus/.ready: tools/prometheus.sh
	@bash tools/prometheus.sh
	@touch $@
