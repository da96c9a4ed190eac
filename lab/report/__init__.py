# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of measurements, their tables and their page."""
