# SPDX-License-Identifier: GPL-2.0-or-later
# Use it:
#   make            the module for the running kernel, in kmod/; installs nothing
#   make demo       what sluice is for, in a VM: a table in four minutes
#   make deb        the Debian packages, into out/
#   make install    from this tree: DKMS, and the command below PREFIX (/usr/local)
#   make uninstall  takes that away again
# Change it:
#   make check      linters, types, unit tests, one build of the module: 2 minutes
#   make unit       the unit tests
#   make modules    the module on every packaged kernel: W=1, sparse, checkpatch
#   make kernel, make command, make packaging, make systemd    scenarios in VMs
#   make debug      the kernel scenarios, where memory, locks and races are watched
#   make test       linters, proofs, unit tests, what is promised: 15 minutes
#   make test-more  the rest of what CI runs: packaged kernels, command, packages
#   make test-all   both, on every kernel of the lab, and make debug
#   make shell      a shell in a VM with the newest kernel
#   make generate   what is made from docs/sluice.yaml: headers, a page, tables
#   make release    source archive, packages, checksums and SBOM, into out/release
# Measure and prove:
#   make native     every row at the CPU's own speed, without an emulator
#   make apps       the same for VPN programs of the distribution
#   make bench      every row in a VM, and the figures it must reach
#   make depth      throughput and ping against the length of the ring
#   make cost       instructions per packet, with the hook and without
#   make verify     every proof, and its verdict
#   make mutants    faults in the module that the proofs do not find
#   make abuse      random sequences of all that is done to a tap in use
#   make soak       mixed traffic for half an hour; readers pause and die
#   make series     patches to the kernel's own driver: made, checked, built
#
#   make clean      empty the lab's cache: /var/cache/sluice, or sluice in $SLUICE_CACHE
#   make help       this list
#
# Options of the lab go into ARGS: make bench ARGS='--kernel 6.12 --rounds 5'

ARGS =
KEEP = SLUICE_CACHE,NO_COLOR,TERM,PREFIX,CONF,AUTOINSTALL
NO_SUDO = sh -c 'echo "this user is not root and there is no sudo: run make as root" >&2; exit 3'
SUDO := $(if $(shell command -v sudo),sudo --preserve-env=$(KEEP),$(NO_SUDO))
AS_ROOT := $(if $(filter 0,$(shell id -u)),,$(SUDO))
LAB = python3 -B -m lab

KERNEL = $(shell uname -r)
HEADERS = /lib/modules/$(KERNEL)/build

module:
	@test -d $(HEADERS) || { echo "kernel $(KERNEL): no headers; install them," \
		"or name another: make KERNEL=RELEASE" >&2; exit 3; }
	@$(MAKE) -C $(HEADERS) M="$(CURDIR)/kmod" modules

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

release: python
	@python3 -B packaging/release $(ARGS)

demo bench depth cost abuse series soak shell deb verify mutants check generate: python
	@$(AS_ROOT) $(LAB) $@ $(ARGS)

native: python
	@$(AS_ROOT) $(LAB) bench --native $(ARGS)

apps: python
	@$(AS_ROOT) $(LAB) apps --native $(ARGS)

test: python
	@$(AS_ROOT) $(LAB) test short $(ARGS)

test-more: python
	@$(AS_ROOT) $(LAB) test more $(ARGS)

test-all: python
	@$(AS_ROOT) $(LAB) test long $(ARGS)

kernel: python
	@$(AS_ROOT) $(LAB) test kernel $(ARGS)

debug: python
	@$(AS_ROOT) $(LAB) test debug $(ARGS)

command: python
	@$(AS_ROOT) $(LAB) test command $(ARGS)

systemd: python
	@$(AS_ROOT) $(LAB) test systemd $(ARGS)

packaging: python
	@$(AS_ROOT) $(LAB) test packaging $(ARGS)

unit: python
	@$(LAB) test unit $(ARGS)

modules: python
	@$(AS_ROOT) $(LAB) build --check $(ARGS)

# With DESTDIR files are only copied, which takes no root.
install:
	@$(if $(DESTDIR),,$(AS_ROOT)) packaging/install

uninstall:
	@$(AS_ROOT) packaging/install --remove

clean: python
	@$(AS_ROOT) $(LAB) clean

python:
	@command -v python3 >/dev/null || { set -x; \
		$(AS_ROOT) apt-get -qq update; \
		$(AS_ROOT) apt-get -qq install -y --no-install-recommends python3; }

.PHONY: module help release systemd demo bench native apps depth cost abuse series soak shell deb
.PHONY: install uninstall verify mutants generate
.PHONY: test test-more test-all kernel command debug packaging unit check modules clean python
