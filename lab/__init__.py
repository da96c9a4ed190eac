# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab: boots real kernels, builds the module for them and measures."""
