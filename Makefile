# Everything a user or a contributor runs. `make help` explains the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo gallery test fuzz chaos lint format bench clean

help:  ## show this help
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: $(STAMP)  ## build .venv with everything (nothing to do when nothing changed)

# torch is a test dependency only. 2.13.0 is what the tests were run with.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: setup  ## profile an attention kernel on this machine's CPU and show where its time goes
	@$(BIN)/python examples/demo.py

gallery: setup  ## reports of a CPU kernel and of simulated machines as pages, and the pictures of the docs
	$(BIN)/python scripts/gallery.py --pictures docs/images

test: setup  ## run the test suite
	$(BIN)/python -m pytest -n 2 tests

# COUNT kernels and INPUTS damaged traces, IR and options from SEED on; docs/fuzzing.md. The long run is INPUTS=100000.
COUNT ?= 500
INPUTS ?= 3000
CUBINS ?= 2000
SEED ?= 0
fuzz: setup  ## random kernels against Triton's interpreter; damaged traces, IR and options (COUNT=500 INPUTS=3000 SEED=0)
	$(BIN)/python -m fuzz --count $(COUNT) --seed $(SEED) --jobs 2 --shrink --json out/fuzz/result.json
	$(BIN)/python -m fuzz.inputs --count $(INPUTS) --seed $(SEED) --json out/fuzz/inputs.json
	$(BIN)/python -m fuzz.cubins --count $(CUBINS) --seed $(SEED)

# ROUNDS of each scenario; docs/robustness.md
ROUNDS ?= 3
chaos: setup  ## kill, interrupt, starve and crowd runs; what is promised must hold (ROUNDS=3 SEED=0)
	$(BIN)/python -m fuzz.chaos --rounds $(ROUNDS) --seed $(SEED) --json out/chaos/result.json

lint: setup  ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: setup  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## run every benchmark; JSON goes to benchmarks/results/
	$(BIN)/python -m benchmarks

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist
