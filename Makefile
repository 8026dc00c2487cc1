# Everything starts from a fresh clone: Python 3.10 or newer and Node 20 are all that must be there.

VENV := $(CURDIR)/.venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
export PATH := $(VENV)/bin:$(PATH)

STAMP := $(VENV)/.stamp
SOURCES := $(shell find src style schema -type f 2>/dev/null)
BUNDLE := jupyter_smx/labextension/package.json
CHROMIUM := $(or $(CHROMIUM_PATH),$(shell command -v chromium || command -v chromium-browser || command -v google-chrome))
ALLOW_ROOT := $(shell [ "$$(id -u)" -eq 0 ] && echo --allow-root)

.PHONY: help env build bytecode demo picture lab check check-core check-kernel check-history check-ruff check-mypy check-imports check-eslint test test-py test-js test-ui test-heavy chaos mutation programs chromium openmpi java docker.io podman rootless gcc openssh slurm nginx ssh-world ssh-world-down dockerd dockerd-stop image lint format types types-check docs bench gpu-wheels gpu-check wheel release-check clean

help: ## say what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

env: $(STAMP) ## make the environment in .venv

# The editable install also runs `jlpm install` and builds the JupyterLab side. jsonschema does without rfc3987-syntax, which
# only checks IRIs: with it each Jupyter server, nbconvert and papermill of a test would compile a grammar for a second.
$(STAMP): pyproject.toml package.json yarn.lock
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -q --disable-pip-version-check -e ".[dev,docs,test]"
	$(VENV)/bin/python -m pip uninstall -q -y rfc3987-syntax
	touch $@

# What the install has built just now is not built again; a build that ended early has no `_build`.
$(BUNDLE): $(STAMP) $(SOURCES)
	test -e node_modules/.yarn-state.yml || jlpm install --immutable
	grep -q '"_build"' $@ 2>/dev/null && test -z "$$(find package.json yarn.lock src style schema -newer $@)" || jlpm build
	jupyter-builder develop . --overwrite
	rm -f jupyter_smx/labextension/install.json  # a later editable install writes it through the link; a wheel has it twice then
	touch $@

build: $(BUNDLE) ## build the JupyterLab side

# Under PYTHONDONTWRITEBYTECODE each controller, kernel and command of a test would compile the package again.
bytecode: $(STAMP)
	$(VENV)/bin/python -m compileall -q jupyter_smx

demo: build bytecode ## run examples/quickstart.ipynb on a real Jupyter server and print what happened
	$(VENV)/bin/python examples/run_demo.py

picture: demo ## take the README's picture of JupyterLab anew
	cp .demo/jupyterlab.png docs/images/jupyterlab.png

lab: build ## open the same notebook in JupyterLab
	jupyter lab $(ALLOW_ROOT) examples/quickstart.ipynb

# Real processes on a shared machine are too slow now and then: CI gives each test a second chance, and the last line of the
# run lists those that took it.
AGAIN := $(if $(CI),--reruns 1 -raR)
# A run that does not end is interrupted, so that it prints what failed until then.
LIMIT := timeout --foreground --signal INT --kill-after 60
# Most of a test's time it waits for processes. A file's tests stay together, for some share what takes long to start.
SIDE_BY_SIDE := -n 3 --dist loadfile
# A browser is busy itself.
BROWSERS := -n 2 --dist loadfile

# Tests that start no process. Single ones among them that do are marked so, and any other one that does fails. Two runs
# for two cores: the workers of a single one would each collect all of them. Histories take longer than the rest.
KERNEL_TESTS := $(addprefix tests/kernel/,api client display handles logs magics options request sagemaker)
CORE_TESTS := tests/model tests/policy tests/structure \
  $(addprefix tests/controller/,agents db images scheduling state) --ignore tests/controller/scheduling/test_histories.py \
  --ignore tests/structure/test_bundle.py
# The environment once made serves, however old it is: what made it again would build the JupyterLab side, too.
CHECKS := check-core check-kernel check-history check-ruff check-mypy check-imports $(if $(wildcard node_modules/.bin/eslint),check-eslint)

check: | $(VENV)/bin/python ## lint, types, contracts and the tests that start no process: about a minute
	@$(MAKE) --no-print-directory --jobs --output-sync=target $(CHECKS)

$(VENV)/bin/python:
	$(MAKE) env

check-ruff:
	ruff check .
	ruff format --check .

check-mypy:
	mypy

check-imports:
	lint-imports

check-eslint:
	jlpm eslint:check

check-core:
	python -m pytest -q --no-processes $(CORE_TESTS)

check-kernel:
	python -m pytest -q --no-processes $(KERNEL_TESTS)

# These start git, so check-core leaves them out.
check-history:
	python -m pytest -q tests/structure/test_frame.py tests/structure/test_prose.py -m processes

# Most of its time a test waits, so the three runs share the cores. Each prints its output when it ends. Built first: a
# build beside them would change what they test.
test: build bytecode docker.io gcc openssh slurm chromium ## run every test but the heavy ones
	@$(MAKE) --no-print-directory --jobs --keep-going --output-sync=target test-py test-js test-ui

test-py: build bytecode docker.io gcc openssh slurm
	$(LIMIT) 3000 $(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) $(AGAIN)

# PARTS="mpi spark" runs these alone; HEAVY=--changed skips what was green with this code already.
HEAVY := --record
MINUTES ?= 1
SEED ?= 1

chaos: bytecode ## kill, freeze and fill for MINUTES=1 by SEED=1, in namespaces of its own, and check what must hold
	$(VENV)/bin/python tests/faults/chaos/run_chaos.py loop --minutes $(MINUTES) --seed $(SEED)

test-heavy: build bytecode openmpi java docker.io podman rootless gcc openssh slurm nginx chromium ## run the heavy tests; what is green goes into tests/heavy.json
	$(VENV)/bin/python tests/heavy.py $(HEAVY) $(PARTS)

# A copy of the checkout is changed, never this one.
mutation: $(STAMP) ## change 200 places of the policy, one at a time, and print what no test noticed
	$(VENV)/bin/python tests/mutation.py

# Beside other steps five seconds are short for a test that takes a tenth of one.
test-js: build
	jlpm test --testTimeout=60000

# A call of its own: the browser's driver has an event loop that the other tests' plugins would close.
test-ui: build bytecode chromium ## run the tests in a real browser
	$(LIMIT) 2700 $(VENV)/bin/python -m pytest ui-tests --confcutdir ui-tests $(BROWSERS) $(AGAIN)

# Debian's packages, where what they bring is missing and root may install it; else the tests themselves say what to do.
# With SysV init, the package would start a Docker daemon that no later step stops: RUNLEVEL=1 prevents that.
DEBIAN := test "$$(id -u)" -eq 0 && command -v apt-get >/dev/null && apt-get update -q && \
  RUNLEVEL=1 apt-get install -y -q --no-install-recommends

programs: chromium openmpi java docker.io podman rootless gcc openssh slurm nginx ## install what the tests need of Debian; as root

chromium:
	@test -n "$(CHROMIUM)" || { $(DEBIAN) chromium; } || true

# Two hosts that compute together by MPI.
openmpi:
	@command -v mpirun >/dev/null || { $(DEBIAN) openmpi-bin libopenmpi-dev; } || true

# Spark, which runs on it.
java:
	@command -v java >/dev/null || { $(DEBIAN) default-jre-headless; } || true

# What the Docker engine's tests start where no daemon answers.
docker.io:
	@command -v dockerd >/dev/null || $(VENV)/bin/python -m jupyter_smx.testing.docker.dockerd find >/dev/null 2>&1 || \
	  { $(DEBIAN) docker.io; } || true
	@command -v docker-registry >/dev/null || { $(DEBIAN) docker-registry; } || true

# What stands in for a driver of GPUs is compiled.
gcc:
	@command -v cc >/dev/null || { $(DEBIAN) gcc libc6-dev; } || true

# The test world for SSH: three machines on one. Debian starts no sshd of its own at run level 1.
openssh:
	@{ test -x /usr/sbin/sshd && command -v ssh && command -v ip; } >/dev/null || \
	  { $(DEBIAN) openssh-server openssh-client iproute2; } || true

# The test world for Slurm, with a database for accounts. Debian starts none of these daemons at run level 1.
slurm:
	@{ command -v srun && test -x /usr/sbin/slurmctld && test -x /usr/sbin/slurmd && test -x /usr/sbin/slurmdbd && \
	  test -x /usr/sbin/munged && test -x /usr/sbin/mariadbd; } >/dev/null || \
	  { $(DEBIAN) slurm-wlm slurmdbd munge mariadb-server; } || true

# The reverse proxy of the heavy part hub, and what makes its certificate. Debian starts no nginx of its own at run level 1.
nginx:
	@{ { test -x /usr/sbin/nginx || command -v nginx; } && command -v openssl; } >/dev/null || \
	  { $(DEBIAN) nginx openssl; } || true

ssh-world: $(STAMP) openssh ## make three machines in build/ssh-world that SSH reaches; as root
	$(VENV)/bin/python tests/worlds/ssh up build/ssh-world

ssh-world-down: $(STAMP) ## take them away
	$(VENV)/bin/python tests/worlds/ssh down build/ssh-world

# Another daemon for the Docker engine.
podman:
	@command -v podman >/dev/null || { $(DEBIAN) podman netavark aardvark-dns catatonit; } || true

# What both of them need where they are not root's.
rootless:
	@{ command -v rootlesskit && command -v slirp4netns && command -v newuidmap; } >/dev/null || \
	  { $(DEBIAN) rootlesskit slirp4netns uidmap; } || true

dockerd: $(STAMP) docker.io ## start a Docker daemon of this checkout's own, if none answers; as root
	@$(VENV)/bin/python -m jupyter_smx.testing.docker.dockerd start

dockerd-stop: $(STAMP) ## end that daemon; its images stay in .dockerd
	@$(VENV)/bin/python -m jupyter_smx.testing.docker.dockerd stop

image: dockerd ## make jupyter-smx-test:latest, a Docker image of this machine's own Python
	@$(VENV)/bin/python -m jupyter_smx.testing.docker.images

lint: build types-check check-ruff check-mypy check-imports ## run the linters and the layer contracts
	jlpm lint:check
	@! grep -nE '__archiveUrl|://' yarn.lock || { echo "yarn.lock names a registry host"; exit 1; }

format: build ## write the code the way the linters want it
	ruff check --fix-only .
	ruff format .
	jlpm lint

build/types.schema.json: $(STAMP) $(wildcard jupyter_smx/model/*.py jupyter_smx/model/*/*.py) jupyter_smx/server/schema.py
	mkdir -p build
	$(VENV)/bin/python -m jupyter_smx.server.schema > $@

types: build/types.schema.json ## make src/_types.ts from the Python structs, src/api/_routes.ts from the table of routes
	jlpm types
	$(VENV)/bin/python -m jupyter_smx.server.browser_routes > src/api/_routes.ts

types-check: build build/types.schema.json
	jlpm types:to build/_types.ts
	@diff -u src/_types.ts build/_types.ts || { echo "src/_types.ts is not what the structs say: make types"; exit 1; }

# Everything is read from the checkout: no inventory, font or script comes over the network.
docs: $(STAMP) ## build the documentation into build/docs; a warning is an error
	$(VENV)/bin/python -m sphinx -b html -W --keep-going -n -q docs build/docs

bench: build ## print the measured figures
	$(VENV)/bin/python -m bench

# 3.12 is the Python of the machine that has the GPU. GPU_PYTHON is its Python with PyTorch.
GPU_PYTHON_VERSION ?= 3.12
GPU_PYTHON ?= python3

gpu-wheels: | $(VENV)/bin/python ## fetch what gpu-check needs on a machine without a network, into build/gpu-wheels
	$(VENV)/bin/python -m bench.gpu_check.wheels --python-version $(GPU_PYTHON_VERSION)

gpu-check: ## run jobs on a real GPU, six minutes at most; with build/gpu-wheels it installs itself first
	$(GPU_PYTHON) -m bench.gpu_check

wheel: $(STAMP) ## build the wheel that would be published
	rm -rf lib tsconfig.tsbuildinfo jupyter_smx/labextension dist
	$(VENV)/bin/python -m pip wheel -q --no-deps -w dist .

release-check: $(STAMP) ## build what would be published, install it into an empty environment, and look at it there
	rm -rf lib tsconfig.tsbuildinfo jupyter_smx/labextension dist build/release
	$(VENV)/bin/python -m build --outdir dist .
	$(VENV)/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install -q --disable-pip-version-check dist/*.whl "jupyterlab>=4.6,<4.7" pytest pytest-asyncio
	$(VENV)/bin/python tests/structure/release.py build/release

clean: ## remove what was built; the environment stays
	rm -rf lib tsconfig.tsbuildinfo jupyter_smx/labextension dist build coverage
