# The two commands: `make pretrain` (ARGS="…" passes flags on) and `make test`; before a release
# `make test-all`, which runs the tests marked `long` too, and `make faults`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2  # processes that run tests; each takes up to 8 GB

.PHONY: pretrain test test-all faults chromium spark lint docs lock clean

pretrain: $(STAMP)
	$(BIN)/python -m bert_tf.pretrain $(ARGS)

# Files in their order, so that the quick ones of visualization come last.
PYTEST := $(BIN)/python -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

test: lint chromium
	$(PYTEST) $(ARGS)

test-all: lint chromium spark
	$(PYTEST) -m '' $(ARGS)

# Every program in tests/faults with its full numbers, for hours (ARGS="--tries 5": for minutes).
faults: $(STAMP)
	@mkdir -p build/faults; failed=; \
	for program in $$(grep -lE 'arser\((description=)?__doc__' tests/faults/*.py); do \
	  name=$$(basename $$program .py); echo "== $$name"; \
	  $(BIN)/python $$program --output build/faults/$$name.json $(ARGS) || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Tests of pages need a browser; where there is none and it cannot be installed they are skipped.
chromium:
	@command -v chromium >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ] || { \
	  echo "installing chromium for the tests of pages"; export DEBIAN_FRONTEND=noninteractive; \
	  timeout 120 apt-get -qq update >/dev/null 2>&1; \
	  timeout 600 apt-get -qq install -y --no-install-recommends chromium >/dev/null 2>&1; \
	} || echo "chromium cannot be installed: those tests will be skipped"

# One long test needs PySpark, which is large and not in the lock, and a Java runtime.
spark: $(STAMP)
	@{ $(BIN)/python -c 'import pyspark' 2>/dev/null || \
	  timeout 900 $(BIN)/python -m pip install --quiet 'pyspark>=4,<5'; } && \
	{ command -v java >/dev/null || { export DEBIAN_FRONTEND=noninteractive; \
	  timeout 120 apt-get -qq update >/dev/null 2>&1; \
	  timeout 600 apt-get -qq install -y --no-install-recommends openjdk-17-jre-headless >/dev/null 2>&1; \
	}; } || echo "PySpark or Java cannot be installed: their test will be skipped"

lint: $(STAMP)
	$(BIN)/ruff check .

# The pages of docs/ as a site in build/site, links checked.
docs: $(STAMP)
	$(BIN)/python docs/command_line.py
	$(BIN)/mkdocs build --strict

# The lock names every package with its hashes; the package itself is linked, not copied.
$(STAMP): requirements.lock setup.cfg pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 14) else f"Python 3.11 to 3.13 is needed, this is {v.major}.{v.minor}: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# Resolve the lock again after a change of setup.cfg (needs uv).
lock:
	uv pip compile setup.cfg --override overrides.txt --all-extras --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -o requirements.lock

clean:
	rm -rf $(VENV) build dist bert_tf.egg-info serving/client/build serving/client/src
