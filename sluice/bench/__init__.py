# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice bench: the subcommand, what it measures on, and how the result is drawn."""
