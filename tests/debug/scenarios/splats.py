# SPDX-License-Identifier: GPL-2.0-or-later
"""What must not pass on a debug kernel, in the order in which it can be seen:
lockdep stops watching after its first complaint, and after KASAN's."""

from __future__ import annotations

from pathlib import Path

from lab.guest.scenarios import Env, scenario

DEBUG = Path("/sys/kernel/debug")


def _splat(env: Env, does: str, watcher: str = "kmemleak") -> None:
    """watcher: tells the kernels of debug.config from those of kcsan.config."""
    if not (DEBUG / watcher).exists():
        env.skip(f"this kernel has no {watcher}")
    env.run("insmod", str(env.module.with_name("splat.ko")), f"does={does}")
    env.run("rmmod", "splat")


@scenario
def locks_in_either_order(env: Env) -> None:
    _splat(env, "locks")


@scenario
def sleep_in_the_wrong_context(env: Env) -> None:
    _splat(env, "context")


@scenario
def armed_timer_is_freed(env: Env) -> None:
    _splat(env, "timer")


@scenario
def freed_memory_is_read(env: Env) -> None:
    _splat(env, "memory")


@scenario
def memory_is_forgotten(env: Env) -> None:
    """The kernel is asked about it at the end of the run, and says it then."""
    _splat(env, "leak")


@scenario
def count_on_two_cpus_without_lock(env: Env) -> None:
    _splat(env, "race", watcher="kcsan")
