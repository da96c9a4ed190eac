# SPDX-License-Identifier: GPL-2.0-or-later
# make            the module for the running kernel, in kmod/; installs nothing
# make demo       what sluice does, side by side with stock and upstream
# make check      in three minutes: linters, types, unit tests, one build of the module
# make test       what CI runs: make check, proofs, module builds, kernels in VMs
# make test-all   the same, with every kernel of the lab in a VM; it has make debug
# make deb        the Debian packages, into out/
# make release    source archive, packages, checksums and SBOM, into out/release
# make install    from this tree: DKMS, and the command below PREFIX (/usr/local)
# make uninstall  takes that away again
# make bench      every row of the table, and the figures it must reach
# make native     the same rows and more at the CPU's own speed, without an emulator
# make apps       the VPN programs people run, with sluice and without
# make depth      what a shallower ring gives in latency, and costs in throughput
# make cost       instructions per packet with and without the hook, and on one CPU
# make verify     why no queue stays stopped: every proof and its verdict
# make series     patches to the kernel's own driver: made, checked, built
# make mutants    how many faults in the module the proofs find, and which not
# make abuse      random sequences of all that is done to a tap in use, by a seed
# make soak       mixed traffic for half an hour, through readers that pause and die
# make generate   what is made from docs/sluice.yaml: the module's headers, a page
# make shell      a shell in a VM with the newest kernel of the lab
# make debug      the scenarios on kernels that watch memory, locks and races
# make unit, make kernel, make command, make modules    parts of make test
# make packaging  the packages in a VM: installed, failing, purged
# make systemd    the units of the packages, where systemd is the first process
# make clean      empty the lab's cache: /var/cache/sluice, or sluice in $SLUICE_CACHE
# make help       this list
#
# Options of the lab go into ARGS: make bench ARGS='--kernel 6.12 --rounds 5'

ARGS =
KEEP = SLUICE_CACHE,NO_COLOR,TERM,PREFIX,CONF
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

demo bench apps depth cost abuse series soak shell deb verify mutants check generate: python
	@$(AS_ROOT) $(LAB) $@ $(ARGS)

native: python
	@$(AS_ROOT) $(LAB) bench --native $(ARGS)

test: python
	@$(AS_ROOT) $(LAB) test all $(ARGS)

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

install:
	@$(AS_ROOT) packaging/install

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
.PHONY: test test-all kernel command debug packaging unit check modules clean python
