# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that runs as a process, at the CPU's own speed: User-Mode Linux."""
