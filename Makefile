# Two commands for a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: demo test test-long lint bench-cpu clean

demo: $(STAMP)
	$(BIN)/skipjack tune matmul:192x192x192 matmul:112x256x64 matmul:224x224x256 \
	    add:1024x1024 sum:4096x1024/axis=1 bias:1024x1024 --seconds 4

test: $(STAMP) lint
	$(BIN)/pytest -m "not long"

test-long: $(STAMP) lint
	$(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy
	MYPYPATH=src:bench $(BIN)/mypy --strict --explicit-package-bases bench/*.py

bench-cpu: $(STAMP)
	$(BIN)/python bench/cpu.py $(BENCH_ARGS)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Skipjack needs Python 3.11 or later; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mkl]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
