# SPDX-License-Identifier: GPL-2.0-or-later
"""What kmod/features.sh makes of a compiler's answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

FEATURES = Path(__file__).parents[2] / "kmod" / "features.sh"
# A compiler that takes what the pattern in $TAKES matches, by the file's name.
COMPILER = """#!/bin/sh
case $1 in --version) echo "{name} 14.2"; exit ;; esac
for last; do :; done
[ "$last" != - ] || echo '"4.18.0-553.el8"'
case $(basename "$last" .c) in {refuses}) echo "error: $last"; exit 1 ;; esac
"""


def _run(tmp_path: Path, refuses: str, name: str = "gcc", built: str = "gcc"):
    compiler = tmp_path / "cc"
    compiler.write_text(COMPILER.format(name=name, refuses=refuses))
    compiler.chmod(0o755)
    output = tmp_path / "features.h"
    command = ["sh", str(FEATURES), str(output), built, str(compiler), "-O2"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done, output.read_text() if output.exists() else ""


def test_what_compiles_is_had(tmp_path) -> None:
    done, header = _run(tmp_path, "never|direct_*")
    assert done.returncode == 0, done.stderr
    assert "#define SLUICE_HAS_FTRACE_REGS\n" in header
    assert "DIRECT" not in header.partition("SLUICE_FEATURES")[0]
    assert "it lacks direct_ip direct_multi direct_ops" in done.stderr


def test_what_a_kernel_lacks_is_named_in_one_line(tmp_path) -> None:
    done, header = _run(tmp_path, "never|tun")
    assert done.returncode == 1 and header == ""
    said = "sluice: this kernel's CONFIG_TUN is off: there is no device to serve; "
    assert done.stderr == said + "no module is built\n"


def test_a_kernel_that_is_too_old_is_named_in_one_line(tmp_path) -> None:
    done, header = _run(tmp_path, "never|kernel_nofault|ftrace_*|direct_*")
    assert done.returncode == 1 and header == ""
    said = "sluice: needs Linux 5.10 or newer, this is 4.18.0-553.el8; "
    assert done.stderr == said + "no module is built\n"


def test_headers_that_do_not_compile_are_refused(tmp_path) -> None:
    done, _ = _run(tmp_path, "*")
    assert done.returncode == 1
    said = f"cc does not compile this kernel's headers ({tmp_path}"
    assert said in done.stderr.splitlines()[-1]


def test_a_compiler_that_takes_everything_is_refused(tmp_path) -> None:
    done, _ = _run(tmp_path, "nothing")
    assert done.returncode == 1
    assert "a function that does not exist" in done.stderr


def test_another_compiler_than_the_kernels_is_refused(tmp_path) -> None:
    done, _ = _run(tmp_path, "never", name="Debian clang version", built="gcc")
    assert done.returncode == 1
    assert "is built with gcc" in done.stderr and "without LLVM=1" in done.stderr
    done, _ = _run(tmp_path, "never", name="gcc", built="clang")
    assert done.returncode == 1 and "run make with LLVM=1" in done.stderr
