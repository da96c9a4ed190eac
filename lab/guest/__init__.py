# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs on the machine under test: the job, and the tools of its workloads."""
