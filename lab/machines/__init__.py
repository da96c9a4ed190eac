# SPDX-License-Identifier: GPL-2.0-or-later
"""What a job runs on: QEMU, root file systems, kernels, built modules."""
