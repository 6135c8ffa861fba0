# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TORCH_VERSION ?= 2.13.0
VENV := .venv
PY := $(VENV)/bin/python
export MAX_JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The first of these interpreters that is at least 3.11 and runs.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

NATIVE_SOURCES := setup.py pyproject.toml \
	$(shell find csrc -type f) $(shell find torch_outboard \( -name '*.[ch]' -o -name '*.cpp' \) -not -path '*/include/*')
FORMATTED := $(shell find csrc -name '*.h' -o -name '*.cpp') \
	$(shell find torch_outboard tests benchmarks examples \( -name '*.[ch]' -o -name '*.cpp' \) \
	-not -path '*/include/*' 2>/dev/null)

say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

.PHONY: venv
venv: $(VENV)/ready ## make .venv with PyTorch and everything that tests and the demo need

.PHONY: build
build: $(VENV)/built ## build the extension and the drivers, and install the package in .venv

CLANG := build/clang
RISCV := build/riscv
# With the compiler and the emulator of the driver `riscv`, which lie apart from .venv.
ON_RISCV := OUTBOARD_DRIVER=riscv OUTBOARD_CLANG="'$(CURDIR)/$(CLANG)/ziglang/zig' clang" \
	OUTBOARD_RISCV_UNICORN="$(CURDIR)/$(RISCV)/unicorn/lib/libunicorn.so.2" OMP_WAIT_POLICY=PASSIVE
RISCV_ENTRIES := add div.no_rounding_mode pow exp sin lgamma erf where cumsum sum var std sort topk gather index_select \
	scatter_add nn.functional.conv2d softmax nn.functional.layer_norm \
	nn.functional.cross_entropy nn.functional.max_pool2d matmul bmm addmm

.PHONY: demo
demo: build ## train a network on handwritten digits on the device, and compare with CPU
	@$(PY) examples/digits.py

.PHONY: demo-riscv
demo-riscv: build $(CLANG)/ready $(RISCV)/ready ## the same, smaller, on an emulated RISC-V processor with kernels compiled for it
	@$(ON_RISCV) $(PY) examples/digits.py --device riscv --channels 8 --epochs 12 --no-compile --output demo-output/riscv

.PHONY: demo-distributed
demo-distributed: build ## the same in two processes, by DDP and FSDP2, with one killed and started again
	@for driver in host ocl; do OUTBOARD_DRIVER=$$driver OMP_NUM_THREADS=1 \
		$(PY) examples/distributed_digits.py --output demo-output/distributed-$$driver || exit 1; done

.PHONY: test
test: build ## the default tests: shared memory, then separate memory, fault injection, and OpenCL
	@$(PY) -m tests.run default

.PHONY: test-changed
test-changed: build ## the tests that a change can touch: what is not committed, else the last commit, or since BASE=
	@$(PY) -m tests.run changed --base "$(BASE)"

.PHONY: test-power
test-power: build ## what the default tests find of faults put into a copy, one after the other; hours
	@$(PY) -m tests.power $(if $(FAULT),--fault $(FAULT))

.PHONY: test-full
test-full: build ## every test and the whole scoreboard; a stopped run resumes where it was
	@$(PY) -m tests.run full --resume

# What has another folder's setting would be taken for this one's: the metadata goes again.
package = mkdir -p build; $(PY) -m build --no-isolation --$(1) --outdir dist . >build/$(1).log 2>&1 \
	|| { grep -E 'error|undefined' -A3 build/$(1).log || tail -40 build/$(1).log; \
	echo "The build failed; build/$(1).log holds everything." >&2; exit 1; }; \
	rm -rf *.egg-info; tail -1 build/$(1).log

INTEL := build/intel

.PHONY: test-intel
test-intel: build $(INTEL)/ready ## the tests of drivers and device kernels through Intel's OpenCL for processors
	@OUTBOARD_OCL_LIBRARY=$(CURDIR)/$(INTEL)/lib/libintelocl.so OMP_WAIT_POLICY=PASSIVE \
		$(PY) -m pytest --configuration ocl -m "not slow" -q -n $(MAX_JOBS) tests/device_kernels tests/drivers

# Left out is what would take an hour in emulation.
.PHONY: test-riscv
test-riscv: build $(CLANG)/ready $(RISCV)/ready ## the tests of drivers and device kernels, and a slice of the scoreboard, on an emulated RISC-V
	@$(ON_RISCV) $(PY) -m pytest --configuration riscv -m "not slow" -q -n $(MAX_JOBS) --timeout 1800 tests/drivers tests/device_kernels \
		tests/examples/test_compile_by_hand.py tests/examples/test_wrong_kernel.py \
		--deselect 'tests/device_kernels/test_model_paths.py::test_training_step_is_native[ResNet-18]'
	@$(ON_RISCV) $(PY) -m torch_outboard scoreboard --suite operators --dtype float32 --driver riscv --placement device --jobs $(MAX_JOBS) --timeout 900 \
		$(addprefix --entry ,$(RISCV_ENTRIES))

.PHONY: test-clang
test-clang: build $(CLANG)/ready ## the tests of drivers and device kernels by kernels of the driver `host`
	@OUTBOARD_CLANG="'$(CURDIR)/$(CLANG)/ziglang/zig' clang" OMP_WAIT_POLICY=PASSIVE \
		$(PY) -m pytest --configuration clang -m "not slow" -q -n $(MAX_JOBS) tests/device_kernels tests/drivers

LIBRARIES := build/libraries

.PHONY: test-libraries
test-libraries: build $(LIBRARIES)/ready ## other libraries as they are, from transformers to torchao, by host and device kernels
	@for configuration in shared separate ocl; do \
		OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(LIBRARIES)/bin/python -m pytest \
			--configuration $$configuration -q -n $(MAX_JOBS) tests/libraries; done
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(LIBRARIES)/bin/python -m pytest --configuration ocl \
		-m "not slow" -q -n $(MAX_JOBS) tests/inductor/models/test_transformers.py

.PHONY: test-asan
test-asan: build ## runtime, operators and drivers under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(PY) -m tests.sanitizers.address

.PHONY: test-tsan
test-tsan: build ## a stress of the runtime and its allocators under ThreadSanitizer
	@$(PY) -m tests.sanitizers.thread

.PHONY: check-versions
check-versions: venv ## check that all C++ compiles against every supported PyTorch and Python
	@$(PY) -m tests.compile_versions --jobs $(MAX_JOBS)

.PHONY: test-version
test-version: ## the default tests with TORCH_VERSION=2.15.0 and PYTHON=python3.12, in a folder of their own
	@tree=build/torch-$(TORCH_VERSION)-python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
		&& $(PYTHON) -m tests.version_tree $$tree \
		&& $(MAKE) -C $$tree test TORCH_VERSION=$(TORCH_VERSION) PYTHON=$(PYTHON)

.PHONY: wheel
wheel: $(VENV)/ready-package ## build a wheel for this Python and this minor version of PyTorch, in dist/
	@rm -rf build/lib.* build/bdist.* *.egg-info
	@$(call package,wheel)

.PHONY: sdist
sdist: $(VENV)/ready-package ## build a source distribution, in dist/
	@rm -rf *.egg-info
	@$(call package,sdist)

.PHONY: test-packages
test-packages: wheel sdist ## install both in fresh environments, and use the device there
	@$(PY) -m tests.fresh_install dist

.PHONY: bench
bench: build ## the benchmarks, written to benchmarks/results
	@$(PY) -m benchmarks.run

.PHONY: docs
docs: build $(VENV)/ready-docs ## the site of the documents, in build/docs/index.html; a dead link inside fails
	@rm -rf build/docs
	@$(PY) tools/site_sources.py build/docs-source
	@$(PY) -m sphinx -q -W --keep-going -n -c docs -d build/docs-cache -b html build/docs-source build/docs
	@echo "build/docs/index.html"

.PHONY: lint
lint: $(VENV)/ready-lint ## check style, types and structure of the sources
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tools/check_structure.py
	$(call say,clang-format of $(words $(FORMATTED)) files)
	@$(VENV)/bin/clang-format --dry-run -Werror $(FORMATTED)

.PHONY: format
format: $(VENV)/ready-lint ## rewrite Python, C and C++ in the project's format
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .
	@$(VENV)/bin/clang-format -i $(FORMATTED)

.PHONY: clean
clean: ## remove everything that the other targets made, .venv included
	rm -rf $(VENV) build dist *.egg-info .test-results demo-output .pytest_cache .ruff_cache .mypy_cache
	rm -rf torch_outboard/include torch_outboard/share torch_outboard/lib
	find torch_outboard -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found: install it" \
		"or name it with 'make PYTHON=/path/to/python3.11'." >&2; exit 1; }
	$(call say,Creating $(VENV) with $(PYTHON))
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "This Python cannot make virtual" \
		"environments; on Debian and Ubuntu install python3-venv." >&2; exit 1; }

# The version of torch is pinned on a line of its own: an unpinned requirement would bring the
# newest build with all of CUDA.
$(VENV)/ready: requirements/build.txt requirements/test.txt requirements/demo.txt | $(VENV)/bin/python
	$(call say,Installing PyTorch $(TORCH_VERSION))
	@$(PY) -m pip install -q torch==$(TORCH_VERSION)
	$(call say,Installing the packages for building and testing and the demo)
	@$(PY) -m pip install -q $(addprefix -r ,$^)
	@touch $@

# Apart from .venv, where the driver would find and use it.
$(INTEL)/ready: requirements/intel.txt | $(VENV)/bin/python
	$(call say,Installing the OpenCL run-time of Intel: 700 MB)
	@$(PY) -m pip install -q --ignore-installed --prefix $(INTEL) -r $<
	@touch $@

$(RISCV)/ready: requirements/riscv.txt | $(VENV)/bin/python
	$(call say,Installing an emulator of RISC-V: 60 MB)
	@$(PY) -m pip install -q --no-deps --upgrade --target $(RISCV) -r $<
	@touch $@

# Apart from .venv, where the driver would find and use it.
$(CLANG)/ready: requirements/clang.txt | $(VENV)/bin/python
	$(call say,Installing a clang: 410 MB)
	@$(PY) -m pip install -q --upgrade --target $(CLANG) -r $<
	@touch $@

# PyTorch is named again, or pip might replace it by the newest one.
# An environment of its own that sees what is in .venv. The packages of requirements/vision.txt are built
# for one kind of PyTorch only, and cannot be loaded beside another.
$(LIBRARIES)/ready: requirements/libraries.txt requirements/vision.txt | $(VENV)/ready
	$(call say,Installing other libraries in $(LIBRARIES))
	@rm -rf $(LIBRARIES)
	@$(PY) -m venv $(LIBRARIES)
	@echo "import site; site.addsitedir('$$($(PY) -c 'import site; print(site.getsitepackages()[0])')')" \
		> "$$($(LIBRARIES)/bin/python -c 'import site; print(site.getsitepackages()[0])')/project.pth"
	@$(LIBRARIES)/bin/python -m pip install -q -r $<
	@if $(PY) -c 'import sys, torch; sys.exit(torch.version.cuda is None)'; then \
		$(LIBRARIES)/bin/python -m pip install -q -r requirements/vision.txt; fi
	@touch $@

$(VENV)/ready-lint: requirements/lint.txt | $(VENV)/ready
	$(call say,Installing linters and formatters)
	@$(PY) -m pip install -q -r $<
	@touch $@

$(VENV)/ready-docs: requirements/docs.txt | $(VENV)/ready
	$(call say,Installing what makes the site of the documents)
	@$(PY) -m pip install -q -r $<
	@touch $@

$(VENV)/ready-package: requirements/package.txt | $(VENV)/ready
	$(call say,Installing what builds packages)
	@$(PY) -m pip install -q -r $<
	@touch $@

# The build imports PyTorch, which would load what an earlier build installed, fitting or not.
$(VENV)/built: $(NATIVE_SOURCES) | $(VENV)/ready
	@command -v $(firstword $(CXX)) >/dev/null || { echo "A C++ compiler is needed and '$(CXX)' was" \
		"not found: install g++ 12 or newer." >&2; exit 1; }
	$(call say,Building torch_outboard with $(MAX_JOBS) jobs: a few minutes the first time)
	@mkdir -p build
	@TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(PY) -m pip install -v --no-build-isolation --no-deps -e . 2>&1 | tee build/build.log \
		| sed -unE 's/^ *(\[[0-9]+\/[0-9]+\]).* -c +([^ ]+) .*/    \1 \2/p' | sed -u "s|$$PWD/||" \
		|| { grep -E 'error|undefined|No such file' -A3 build/build.log || tail -40 build/build.log; \
		echo "The build failed; build/build.log holds everything." >&2; exit 1; }
	@touch $@
