# Everything a newcomer needs: `make demo` and `make test`. Set-up is done on the way.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SHELL  := /bin/bash
export PYTHONHASHSEED ?= random
# Planners and drivers start hundreds of times: what Python compiles is kept.
export PYTHONDONTWRITEBYTECODE :=
# Of another Spark than the pyspark in .venv.
unexport SPARK_HOME
UNIT   := -m "not long" tests/unit tests/property

.DEFAULT_GOAL := help
.PHONY: help check demo test unit lab coverage integration long fresh evidence bench soak executor-memory peers chaos fuzz spark-suite compat matrix lint format jar docs wheel maven sbom audit release-check lock clean

help:  ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check:
	@command -v $(PYTHON) >/dev/null || { echo "make: Python >= 3.10 is missing ($(PYTHON) not found); set PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "make: Python >= 3.10 is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 2; }
	@javac="$${JAVA_HOME:+$$JAVA_HOME/bin/}javac"; \
	  version=$$("$$javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'); \
	  case "$$version" in 17|21) ;; \
	    "") echo "make: a JDK 17 or 21 is missing ($$javac not found); install one or set JAVA_HOME" >&2; exit 2 ;; \
	    *) echo "make: a JDK 17 or 21 is needed, $$javac is version $$version; set JAVA_HOME" >&2; exit 2 ;; esac

$(READY): pyproject.toml constraints.txt | check
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,demo,docs,kafka-python]'
	@git config core.hooksPath .githooks 2>/dev/null || true  # not in an unpacked archive
	@touch $@

jar: $(READY)  ## Build the jar that runs inside Spark
	@$(BIN)/python -m assignor_bridge.jvm.build

demo: jar  ## The main job on real flights, without the option and with it
	@$(BIN)/assignor demo

test: jar  ## All tests but `long`: those that start drivers follow lint and unit, beside the rest of integration
	@$(MAKE) --no-print-directory -j2 unit-then-drivers one-session

.PHONY: unit-then-drivers one-session
unit-then-drivers: lint
	@failed=0; $(MAKE) --no-print-directory unit || failed=1; \
	  $(BIN)/python -m tests.support.class_archive; \
	  $(BIN)/python -m pytest tests/integration -m "integration and not long and (kills or drivers)" || failed=1; \
	  exit $$failed

one-session:
	@$(BIN)/python -m pytest tests/integration -m "integration and not long and not (kills or drivers)"

unit: jar  ## The tests that need neither broker nor Spark
	@$(BIN)/python -m pytest $(UNIT)

lab: jar  ## The tests of the tools in tests/lab, which `make test` does not use
	@$(BIN)/python -m pytest -m "not long" tests/lab/unit

# Percent of lines and branches that the unit tests reach, by folder: just below what was measured.
FLOORS := assignor_bridge/planner=97 assignor_bridge/assignors=97 assignor_bridge/protocol=98 assignor_bridge/admission=95 \
  checkpoints=95 streaming/pipeline/config=94 streaming/metrics=93 \
  streaming/observe=92 streaming/replay=92 streaming/report=96 streaming/simulator=97

coverage: jar  ## The unit tests with their branch coverage, and a floor for each folder
	@$(BIN)/python -m coverage run -m pytest $(UNIT)
	@$(BIN)/python -m coverage report --skip-covered --sort=cover
	@failed=0; for floor in $(FLOORS); do \
	  total=$$($(BIN)/python -m coverage report --format=total --precision=1 --fail-under=0 --include="$${floor%=*}/*"); \
	  echo "$${floor%=*}: $$total% (floor $${floor#*=}%)"; \
	  awk "BEGIN {exit !($$total >= $${floor#*=})}" || failed=1; \
	done; exit $$failed

integration: jar  ## The tests with a real broker and a real Spark, the long ones too
	@$(BIN)/python -m pytest -m integration

long: jar  ## The tests that `make test` has no time for; five times the examples of each property
	@$(BIN)/python -m pytest -m long
	@TRIALS_FACTOR=5 $(BIN)/python -m pytest tests/property

evidence: jar  ## All that proves a release and does not fit into `make test`: runs what has not passed for the last commit of code (STEP=summary: print what is proved; STEP="name|name": repeat steps)
	@$(BIN)/python -m tests.lab.evidence "$(STEP)"

fresh: check  ## demo and test as on a new machine: a clone, HOME and caches in an empty folder
	@PYTHON=$(PYTHON) .ci/fresh

bench: jar  ## Measure, beside Spark and Kafka in the same run; writes docs/benchmarks/ (QUICK=1: a first look in five minutes, writes only build/bench-quick.md; TARGETS=1: what targets rest on, in two and a half hours; DIRTY=1: although the tree has changes)
	@$(BIN)/python -m $(if $(QUICK),tests.lab.benchmarks.quick,$(if $(TARGETS),tests.lab.benchmarks.one_run $(if $(DIRTY),--dirty),pytest -m benchmark -p no:randomly -s tests/lab/benchmarks))

soak: jar  ## One job at 5,000 records a second for two hours: is memory level? (SOAK_S=n seconds); writes docs/benchmarks/soak.json
	@SOAK_S=$(or $(SOAK_S),7200) $(BIN)/python -m pytest -m benchmark -p no:randomly -s tests/lab/benchmarks/test_bench_soak.py

executor-memory: jar  ## Executors' memory outside the heap over two hours, with the option and without (SOAK_S=n seconds); writes docs/benchmarks/executor_memory.json
	@SOAK_S=$(or $(SOAK_S),7200) $(BIN)/python -m pytest -m benchmark -p no:randomly -s tests/lab/benchmarks/test_bench_executor_memory.py

peers: jar  ## Compare with Flink, a loop of Python, and Spark's own settings (PEERS="--laws zipf --seconds 10 --kills"); writes docs/benchmarks/peers.json
	@$(BIN)/python -m tests.lab.peers $(PEERS)

chaos: jar  ## Kill -9 drivers and executors 320 times (KILLS=n with executors, in local mode, with limited batches twice; SEED=n; LIMIT_S=n), or faults by name (KIND=name|all, WITH=admission|alignment|zones), or with a protection taken out (WITHOUT=name|all)
	@$(if $(WITHOUT),$(BIN)/python -m tests.lab.faults.without "$(WITHOUT)",KILLS=$(KILLS) KIND="$(KIND)" WITH="$(WITH)" SEED=$(SEED) LIMIT_S=$(LIMIT_S) \
	  $(BIN)/python -m pytest -m chaos -p no:randomly -s \
	  $(if $(KIND),tests/integration/test_faults.py,tests/integration/test_kills.py))

fuzz: $(READY)  ## Feed changed inputs to all readers of what others wrote, guided by coverage (FUZZ_S=n seconds each, 60 by default; KIND=name|name)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	@FUZZ_S=$(FUZZ_S) KIND="$(KIND)" $(BIN)/python -m tests.lab.fuzz

spark-suite: jar  ## Spark's own suites of its Kafka source, with the bridge on (ADMISSION=time|deadline: with limited batches; SPLIT=false: with whole partitions)
	@$(BIN)/python -m tests.lab.sparksuite $(if $(ADMISSION),--admission=$(ADMISSION)) $(if $(SPLIT),--split=$(SPLIT))

compat: jar  ## The same jar on each Spark of assignor_bridge/tested_spark.py: every way to start a query (fetches each once, 450 MB)
	@$(BIN)/python -m tests.lab.compat

matrix: jar  ## That, `make test`, kills and Spark's own suites on each of these Sparks; other Pythons and JDKs (JDKS=folder:folder)
	@JDKS=$(JDKS) $(BIN)/python -m tests.lab.compat --matrix

lint: $(READY)  ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

format: $(READY)  ## Let ruff format and fix
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(READY)  ## Build the site of the docs into build/site; a warning or a dead link within the site is an error
	@$(BIN)/python -m sphinx -b html -W --keep-going -q -d build/site-trees docs build/site
	@echo build/site/index.html

# What the build imports; the wheel itself needs the last two, too.
BUILD_TOOLS := build hatchling filelock platformdirs
wheel: check  ## Build the wheel, with the jar in it, into dist/ (with pyspark in the active virtual environment, else in .venv)
	@rm -f dist/*.whl
	@if test -n "$$VIRTUAL_ENV" && python -c 'import pyspark' 2>/dev/null; then \
	  python=python; python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(BUILD_TOOLS); \
	else python=$(BIN)/python; $(MAKE) --no-print-directory $(READY); fi && \
	$$python -m assignor_bridge.jvm.build && $$python -m build --wheel --no-isolation

sbom: jar  ## Write a bill of materials into dist/
	@$(BIN)/python -m tests.lab.release bill dist/assignor-bridge.cdx.json

maven: jar  ## The jars for Spark and for consumers as Maven artifacts with POM and sources, into dist/maven
	@$(BIN)/python -m tests.lab.release maven dist/maven

audit: jar  ## Look for known weaknesses in downloaded advisories (OSV=pypi.zip:maven.zip)
	@$(BIN)/python -m tests.lab.release audit $(subst :, ,$(OSV))

release-check: jar  ## All that a release does but publish: docs/internals/releasing.md (OSV as for audit)
	@$(BIN)/python -m tests.lab.release check $(subst :, ,$(OSV))

lock: $(READY)  ## Pin today's versions in constraints.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --all-extras --no-header \
	  --no-annotate --no-emit-index-url --upgrade-package assignor-bridge -o constraints.txt pyproject.toml

clean:  ## Remove what was built and installed
	@rm -rf $(VENV) build dist assignor_bridge/jars .mypy_cache .ruff_cache .pytest_cache .hypothesis
