# The two commands: `make pretrain` (ARGS="…" passes flags on) and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2  # processes that run tests; each takes up to 6 GB

.PHONY: pretrain test lint lock clean

pretrain: $(STAMP)
	$(BIN)/python -m bert_tf.pretrain $(ARGS)

test: lint
	$(BIN)/python -m pytest -q --numprocesses $(JOBS) --dist loadfile $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .

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
	rm -rf $(VENV) build dist bert_tf.egg-info
