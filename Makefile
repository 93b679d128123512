# `make demo` or `make test` on a fresh clone does all the set-up, in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-all test-cluster coverage lint bench screenshots publish docs proofs clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cluster,language,export,methods,docs,dev]'
	touch $@

demo: setup
	$(BIN)/kleene demo

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-all: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m 'slow or not slow'

# Tasks on a Ray cluster of several nodes, one of which is killed; about a minute.
test-cluster: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests/common/test_cluster.py

# Coverage of the default tests; the lines that no test reaches stand beside each file.
coverage: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-report=term-missing

lint: setup
	$(BIN)/ruff check src tests benchmarks proofs docs/*.py
	$(BIN)/ruff format --check src tests benchmarks proofs docs/*.py
	$(BIN)/mypy
	$(BIN)/pyright

bench: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

screenshots: setup  # the pictures of pages in docs/images, which carry their pages' versions
	$(BIN)/python -m benchmarks.screenshots

publish: setup  # FROM="results/alta.frozen …" adds their runs; without it every table is derived again
	$(BIN)/python -m kleene.papers.publish $(FROM)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The lemmas behind certificates, in Coq; installs nothing, says what is missing.
proofs:
	$(MAKE) -C proofs

clean:
	$(MAKE) -C proofs clean
	rm -rf site .venv .mypy_cache .ruff_cache .pytest_cache .coverage results
