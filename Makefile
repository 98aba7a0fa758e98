# Two commands: `make demo` and `make test`. Each sets up everything it needs in .venv. `make test` states every fact,
# `make test-all` states some of them on more cases. `make test-gpu` needs no GPU: it runs the GPU code on CPU tensors and
# its kernels in Triton's interpreter, in a .venv-gpu of its own.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all test-gpu fuzz lint format bench docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[test,lint]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python -m ulmus.demo

test: $(VENV)/.tested
	$(BIN)/python tools/test.py -m "not slow"

test-all: $(VENV)/.tested
	$(BIN)/python tools/test.py

# Drawn cases, so many minutes for each harness of tests/fuzz; `make fuzz MINUTES=30 ARGS="--jobs 4 --out counts.json"`.
MINUTES ?= 2
fuzz: $(VENV)/.tested
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

$(VENV)-gpu/.tested: pyproject.toml
	$(PYTHON) -m venv $(VENV)-gpu
	$(VENV)-gpu/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-gpu/bin/python -m pip install --quiet --editable ".[test,test-gpu]"
	touch $@

test-gpu: $(VENV)-gpu/.tested
	$(VENV)-gpu/bin/python -m pytest tests/test_devices.py tests/test_device_choices.py \
	    tests/test_device_streaming.py tests/test_triton.py

lint: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.tested
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[bench]" || echo "some rivals did not install; the run says which"
	$(BIN)/python benchmarks/core.py $(ARGS)

docs: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) $(VENV)-gpu .mypy_cache .ruff_cache .pytest_cache .hypothesis
