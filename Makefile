# Two commands for a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
TORCH := $(VENV)/.torch
LOADGEN := $(VENV)/.loadgen
FLEET := $(VENV)/.fleet
EVERYTHING := $(VENV)/.everything
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
NEW_PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'  # knows --group

# Tests start thousands of processes that import the same modules: their byte code is kept, also where
# the environment says otherwise. Compiling SQLAlchemy alone takes half a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-loadgen test test-long tests-quick tests-all autotune lint clean
.PHONY: bench-cpu bench-small bench-lookup bench-regret bench-matmul bench-vector bench-conv bench-sweep bench-fleet bench-gpu bench-loops bench-torch
.PHONY: bench-replay system-bank tvm

demo: $(STAMP)
	$(BIN)/skipjack tune matmul:192x192x192 matmul:1024x1024x1024 matmul:16x4096x4096 \
	    softmax:4096x1024 batchnorm:n8c64h56w56 sum:64x64x1024/axis=0,2 --seconds 4
	$(BIN)/skipjack find conv2d:n1c64h56w56k64y3x3p1q1 --layout NHWC --seconds 5

# A real MLPerf LoadGen benchmark, from nothing to a valid user.conf, in about three minutes.
demo-loadgen: $(STAMP) $(LOADGEN)
	$(BIN)/python examples/loadgen/run_demo.py

# Lint and types are checked beside the tests: one core's work while servers start.
# Tests wait for servers and workers much of the time: four at once keep two cores busy.
# PYTEST_ARGS="-n 0" runs one test after the other. Libraries get one thread in the tests' own
# processes: those of four at once would wait for each other. Workers set theirs themselves.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
test: $(EVERYTHING)
	$(MAKE) --no-print-directory -j2 lint tests-quick

test-long: $(EVERYTHING)
	$(MAKE) --no-print-directory -j2 lint tests-all

tests-quick: $(EVERYTHING)
	$(ONE_THREAD) $(BIN)/pytest -n 4 --no-loadscope-reorder -m "not long" $(PYTEST_ARGS)

tests-all: $(EVERYTHING)
	$(ONE_THREAD) $(BIN)/pytest -n 3 --no-loadscope-reorder --durations=40 $(PYTEST_ARGS)

# NVIDIA's grid.py by its own words: make autotune RUN_ARGS="rnnt Server config.py --dry_run"
autotune: $(STAMP)
	$(BIN)/skipjack grid $(RUN_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy
	MYPYPATH=src:bench $(BIN)/mypy --strict --explicit-package-bases bench/*.py

# The bank that comes with Skipjack, for this CPU with all of its instructions and with AVX2 alone:
# about half an hour. One that was interrupted goes on where it was, with what could not be confirmed.
SECONDS ?= 3
system-bank: $(STAMP) $(TORCH)
	$(BIN)/python bench/system_bank.py cpu --user bench/.cache/system-own --seconds $(SECONDS)
	SKIPJACK_CPU_LEVEL=x86-64-v3 $(BIN)/python bench/system_bank.py cpu \
	    --user bench/.cache/system-v3 --seconds $(SECONDS)
	$(BIN)/skipjack bank ship $(wildcard bench/.cache/system-gpu*) \
	    bench/.cache/system-own bench/.cache/system-v3 -o src/skipjack/system

# All of it, about 25 minutes; BENCH_ARGS=--quick for an impression. One part: make bench-vector.
# The parts run one after the other, also under make -j: beside each other they would measure nothing.
bench-cpu: $(STAMP) $(TORCH)
	$(BIN)/python bench/cpu.py $(BENCH_ARGS)
	$(BIN)/python bench/matmul.py $(BENCH_ARGS)
	$(BIN)/python bench/vector.py $(BENCH_ARGS)

# TVM to compare with, in an environment of its own beside the packages of this one.
tvm: $(STAMP)
	$(BIN)/python -m venv $(VENV)/tvm
	$(VENV)/tvm/bin/python -m pip install --quiet --disable-pip-version-check -e '.[tvm]'

bench-small: $(STAMP)
	$(BIN)/python bench/cpu.py $(BENCH_ARGS)

# What it costs to find what is known, about three minutes; beside Triton and Kernel Tuner where they
# can be installed.
bench-lookup: $(STAMP) $(TORCH)
	$(BIN)/python bench/lookup.py $(BENCH_ARGS)

# How good answers are: regret, winners that flip, replay fidelity, nearest answers. Three minutes.
bench-regret: $(STAMP)
	$(BIN)/python bench/regret.py $(BENCH_ARGS)

# How good the policy for loop nests is, on nests that it was not trained on: an hour on two cores,
# BENCH_ARGS=--quick three minutes. One that was interrupted goes on where it was.
bench-loops: $(STAMP)
	$(BIN)/python bench/loop_policy.py $(BENCH_ARGS)

# Programs of PyTorch under the hook: what it costs, losses, ranks, and networks end to end. About two
# hours, BENCH_ARGS=--quick for an impression; one that was interrupted goes on where it was.
bench-torch: $(STAMP) $(TORCH)
	$(BIN)/python bench/torch_overhead.py $(BENCH_ARGS)
	$(BIN)/python bench/torch_loss.py
	$(BIN)/python bench/torch_ranks.py
	$(BIN)/python bench/torch_mnist.py $(BENCH_ARGS)
	$(BIN)/python bench/torch_steps.py $(BENCH_ARGS)

bench-matmul: $(STAMP) $(TORCH)
	$(BIN)/python bench/matmul.py $(BENCH_ARGS)

bench-vector: $(STAMP) $(TORCH)
	$(BIN)/python bench/vector.py $(BENCH_ARGS)

# About 40 minutes; one that was interrupted goes on where it was.
bench-conv: $(STAMP) $(TORCH)
	$(BIN)/python bench/conv.py $(BENCH_ARGS)

# About 20 minutes: the search for a load against others', joint search on recorded grids, overhead.
bench-sweep: $(STAMP) $(LOADGEN)
	$(BIN)/python bench/sweep.py $(BENCH_ARGS)
	$(BIN)/python bench/sweep_overhead.py $(BENCH_ARGS)

# Searchers, Optuna's samplers and Kernel Tuner's strategies on recorded spaces, about an hour on one
# core; one that was interrupted goes on where it was. T4_DIR has the files, as of benchmark_hub.
bench-replay: $(STAMP)
	$(BIN)/python bench/replay.py --data $(T4_DIR) $(BENCH_ARGS)

# About 10 minutes: stores beside Celery with Redis, the cost of Ray, a second evaluator, 1,000 devices.
bench-fleet: $(STAMP) $(FLEET)
	-tools/install-servers redis-server
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check celery redis
	$(BIN)/python bench/fleet.py $(BENCH_ARGS)
	$(BIN)/python bench/fleet_ray.py $(BENCH_ARGS)
	$(BIN)/python bench/fleet_evaluators.py $(BENCH_ARGS)
	$(BIN)/python bench/fleet_simulation.py

# Builds the GPU benchmark's kernels here; `bench/gpu.py` says how to measure them on a GPU machine.
bench-gpu: $(STAMP) $(TORCH)
	$(BIN)/python bench/gpu.py build $(BENCH_ARGS)
	$(BIN)/python bench/gpu_autotune.py --build bench/gpu_work/autotune

# PyTorch is a peer to measure against, and its convolutions are choices of `skipjack find`; without
# it the rest is measured.
# TORCH_PIP_ARGS may name an index of builds without GPU libraries, which are much smaller.
$(TORCH): $(STAMP)
	-$(PIP) $(TORCH_PIP_ARGS) -e '.[torch,triton]'
	-$(PIP) $(TORCH_PIP_ARGS) -e '.[rl]'
	touch $@

$(LOADGEN): $(STAMP)
	$(PIP) -e '.[loadgen]'
	touch $@

# Drivers, Ray, and the servers that tests start; Debian packages where root can install them.
$(FLEET): $(STAMP) tools/install-servers
	tools/install-servers & \
	    $(PIP) -e '.[postgresql,mariadb,ray]' || echo "tests that need Ray or a driver will be skipped" >&2; \
	    wait
	touch $@

# What tests use, by a single call of pip: it resolves once, and files are compiled when they are first
# imported. Where that fails, part by part: PyTorch, LoadGen, Ray and drivers may be missing.
$(EVERYTHING): pyproject.toml constraints.txt tools/install-servers | $(BIN)/python
	$(NEW_PIP)
	tools/install-servers & \
	    $(PIP) --no-compile $(TORCH_PIP_ARGS) \
	        --group test --group lint \
	        -e '.[plots,png,mkl,torch,triton,rl,loadgen,optuna,postgresql,mariadb,ray,web]' \
	        && touch $(STAMP) $(TORCH) $(LOADGEN) $(FLEET); \
	    wait
	$(MAKE) --no-print-directory $(STAMP) $(TORCH) $(FLEET)
	-$(MAKE) --no-print-directory $(LOADGEN)
	touch $@

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(NEW_PIP)
	$(PIP) --group test --group lint -e '.[plots,web]'
	-$(PIP) -e '.[mkl]'
	touch $@

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Skipjack needs Python 3.11 or later; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
