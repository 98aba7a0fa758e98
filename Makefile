# Two commands: `make demo` and `make test`. Each sets up everything it needs in .venv. `make test` states every fact,
# `make test-all` states some of them on more cases. `make test-gpu` needs no GPU: it runs the GPU code on CPU tensors and
# its kernels in Triton's interpreter, in a .venv-gpu of its own.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all test-core test-gpu test-neighbours test-oldest test-newest fuzz wheel lint format bench bench-all docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

CORE := setup.py $(wildcard src/core/*)

$(VENV)/.installed: $(BIN)/python pyproject.toml $(CORE)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[test,lint]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python -m ulmus.demo

test: $(VENV)/.tested
	$(BIN)/python -m pytest -n logical --dist worksteal -m "not slow"

test-all: $(VENV)/.tested
	$(BIN)/python -m pytest -n logical --dist worksteal

# Drawn cases, so many minutes for each harness of tests/fuzz; `make fuzz MINUTES=30 ARGS="--jobs 4 --out counts.json"`.
MINUTES ?= 2
fuzz: $(VENV)/.tested
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

# The compiled core under sanitizers, which tell of every byte read or written beyond an array.
test-core: $(VENV)/.tested
	mkdir -p build/core
	$(CC) -shared -fPIC -O1 -g -std=c11 -ffp-contract=off -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all \
	    -DPy_LIMITED_API=0x030B0000 -I$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))") \
	    $(wildcard src/core/*.c) -o build/core/_core.abi3.so
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 ULMUS_CORE=build/core/_core.abi3.so \
	    $(BIN)/python -m pytest tests/test_trees.py tests/test_kernels.py

$(VENV)-gpu/.tested: pyproject.toml $(CORE)
	$(PYTHON) -m venv $(VENV)-gpu
	$(VENV)-gpu/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-gpu/bin/python -m pip install --quiet --editable ".[test,test-gpu]"
	touch $@

test-gpu: $(VENV)-gpu/.tested
	$(VENV)-gpu/bin/python -m pytest tests/test_devices.py tests/test_device_choices.py \
	    tests/test_device_adaptive.py tests/test_device_log.py tests/test_device_streaming.py tests/test_triton.py tests/test_ecosystem.py

# Beside other libraries, the real ones, which are heavy: Spark (needs Java), Ray, MLflow, MAPIE, LightGBM, shap.
test-neighbours: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[test-neighbours]"
	$(BIN)/python -m pytest -rs tests/test_neighbours.py tests/test_explain.py -k "neighbours or shap"

# The corners of what is supported: the lowest versions that pyproject.toml names, and the newest there are.
# (scikit-learn 1.6 to 1.8 know the columns of polars frames by a protocol that polars 2 has no more)
OLDEST := numpy==2.0.* scipy==1.13.* scikit-learn==1.6.* narwhals==2.0.* joblib==1.4.* threadpoolctl==3.5.* "polars==1.*"
CORNER := tests/test_contract.py tests/test_models.py tests/test_adaptive.py tests/test_online.py tests/test_ordinal.py \
    tests/test_robust.py tests/test_enda.py tests/test_persistence.py

test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-oldest/bin/python -m pip install --quiet $(OLDEST)
	$(VENV)-oldest/bin/python -m pip install --quiet --editable ".[test-corner]" $(OLDEST)
	$(VENV)-oldest/bin/python -m pytest -m "not slow" $(CORNER)

test-newest:
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade --pre --editable ".[test]"
	$(VENV)-newest/bin/python -m pytest -m "not slow" $(CORNER)

# A wheel and a source archive, checked as the registry would, and the demo from the wheel in an empty environment.
wheel: $(BIN)/python
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(PYTHON) tools/check_wheel.py dist/*.whl
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../$(VENV)-wheel/bin/python -m ulmus.demo

lint: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/python tools/house.py --check

format: $(VENV)/.tested
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[bench]" || echo "some rivals did not install; the run says which"
	$(BIN)/python -m experiments.sections --only a,b,c,d,e $(ARGS)

# Every section, into the report; a run that was interrupted goes on, until there is another commit.
bench-all: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[bench]" || echo "some rivals did not install; the run says which"
	$(BIN)/python -m experiments.sections --out experiments/RESULTS.md --cells experiments/.cells $(ARGS)

# Warnings are errors, links are followed, and nothing is fetched; drawn anew by python docs/pictures.py.
docs: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python tools/check_docs.py docs/_build/html

clean:
	rm -rf build dist src/ulmus/_core*.so src/ulmus/_core*.pyd docs/_build docs/gallery docs/generated $(VENV) $(VENV)-gpu $(VENV)-oldest $(VENV)-newest $(VENV)-wheel .mypy_cache .ruff_cache .pytest_cache .hypothesis
