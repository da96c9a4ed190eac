# SPDX-License-Identifier: GPL-2.0-or-later
"""Arguments, exit codes and complaints of the command."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click.shell_completion
import pytest

from sluice import cli, config, system
from sluice.cli import main
from sluice.errors import EXIT_CODES, NetlinkError
from tests.unit._machine import DEVICE0, TAP0, Machine, raising

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("arguments", [
    *("nonsense", "--nonsense", "status --nonsense", "--netns", "--netns ..",
      "--netns x --all-netns", "metrics --netns x --all-netns", "metrics tap0"),
    *("on", "off", "on --now", "on a/b", "on abcdefghijklmnop"),
    *("on tap0 --stall-ms", "on tap0 --stall-ms x", "on tap0 --qdisc noqueue",
      "off tap0 --stall-ms 5", "off tap0 --qdisc fq_codel"),
    *("apply a b", "watch --interval 0", "watch --count -1", "doctor tap0"),
    *("bench tap0", "bench --rounds 0", "bench --seconds 0.1", "bench --seconds x",
      "bench --work-us -1", "bench --svg /"),
    *("install 0.1.0", "install --now", "uninstall tap0"),
    *("completion", "completion tcsh"),
])
def test_wrong_arguments_are_one_line_and_status_2(
    machine: Machine, run, arguments: str
) -> None:
    said = run(arguments, 2)
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("sluice: ") and "; see: sluice" in said.err
    assert not machine.set_calls and not config.PATH.exists()


@pytest.mark.parametrize("arguments", [["status", "nope"], ["--netns", "nope"]])
def test_absent_things_are_status_1(machine: Machine, run, arguments) -> None:
    said = run(arguments, 1)
    assert said.out == "" and said.err.count("\n") == 1


def test_common_options_may_stand_before_the_subcommand(machine, run) -> None:
    assert run("--json metrics").out.startswith("{")
    machine.namespaces["on"] = 5
    assert main(["--netns", "on", "off", "tap0", "--now"]) == 0
    assert machine.set_calls == [(2, {"on": 0})]


@pytest.mark.parametrize("command", ["", *cli.MODULES])
def test_help_fits_the_terminal(run, command: str) -> None:
    said = run([*command.split(), "--help"]).out
    assert said.startswith("Usage: sluice")
    assert max(len(line) for line in said.splitlines()) < 80
    assert "..." not in said.partition("Commands:")[2]


@pytest.mark.parametrize("words", [["-m", "sluice", "-V"], ["bin/sluice", "--version"]])
def test_version_and_two_ways_to_start_it(words: list[str]) -> None:
    assert _command(*words).communicate() == (b"sluice 0.1.0\n", b"")


def test_help_is_a_word_too(run) -> None:
    assert run("help").out.startswith("Usage: sluice [OPTIONS] COMMAND")
    for words in (["help", "watch"], ["--json", "help", "watch"]):
        assert run(words).out.startswith("Usage: sluice watch")


@pytest.mark.parametrize(("words", "guess"), [
    ("statsu", "did you mean status?"),
    ("metrcis --json", "did you mean metrics?"),
    ("status tap1", "did you mean tap0?"),
    ("status [red]x", "[red]x: nothing matches; did you mean [[]red]x?"),
    ("[red]x", "did you mean [[]red]x?"),
    ("tap1", "did you mean tap0?"),
    ("on --now tpa0", "did you mean tap0?"),
    ("on --stal 1 tap0", "no such option: --stal (did you mean --stall-ms?); see: "),
    ("status --nope", "no such option: --nope; see: sluice status --help"),
    ("on --limit x tap0", "sluice: on: Invalid value for '--limit': 'x' is not a "
     "valid whole number; see: sluice on --help"),
])
def test_slips_are_answered_with_a_guess(machine, capsys, words, guess) -> None:
    machine.links.append(replace(TAP0, ifindex=7, name="[red]x"))
    machine.devices.append(replace(DEVICE0, ifindex=7, ifname="[red]x"))
    assert main(words.split()) in (1, 2)
    assert guess in capsys.readouterr().err
    assert not machine.set_calls


def test_name_of_a_device_is_its_details(machine: Machine, run) -> None:
    assert run("tap0").out.startswith("tap0 (tap): on, served\n")
    assert [one["name"] for one in json.loads(run("--json tap?").out)["devices"]] == [
        "tap0"
    ]


@pytest.mark.parametrize(
    ("words", "code"), [("status nope --json", 1), ("on --json --limit x tap0", 2)]
)
def test_errors_are_json_if_json_was_asked_for(machine, run, words, code) -> None:
    said = run(words, code)
    answer = json.loads(said.out)
    assert (answer["schema"], answer["code"]) == (1, code)
    assert answer["meaning"] == EXIT_CODES[code]
    assert said.err == f"sluice: {answer['error']}\n"


@pytest.mark.parametrize(("error", "code", "text"), [
    (NetlinkError(errno.EINVAL), 1, "netlink: Invalid argument; see: sluice doctor"),
    (NetlinkError(errno.EPERM), 4, "netlink: Operation not permitted; run it as"),
    (PermissionError(13, "x", "/proc"), 4, "/proc: permission denied; run it as"),
    (OSError(24, "Too many open files", "/proc"), 1, "/proc: Too many open files; "),
    (OSError(28, "x", "/x"), 1, "/x: the disk is full; free some space"),
    (ValueError("what\nnow"), 1, "ValueError: what now; a defect of this command"),
    (KeyboardInterrupt(), 130, ""),
])
def test_whatever_goes_wrong_is_one_line(
    machine: Machine, run, monkeypatch, error: BaseException, code: int, text: str
) -> None:
    monkeypatch.setattr(system, "read_links", raising(error))
    said = run("status", code).err
    assert said.startswith(f"sluice: {text}") if text else not said.strip()
    assert said.count("\n") == 1


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1", "C.UTF-8"])
def test_names_are_shown_in_every_locale(tmp_path: Path, locale: str) -> None:
    """A table that is cut on a terminal has a mark that not every locale has."""
    program = (
        "import dataclasses, pathlib, pytest, sys\n"
        "from sluice import output\n"
        "from sluice.cli import main\n"
        "from tests.unit import _machine as m\n"
        "machine = m.install(pytest.MonkeyPatch(), pathlib.Path(sys.argv[1]))\n"
        "name = 't\\xfc\\u65e5\\udcff'\n"
        "machine.links[0] = dataclasses.replace(m.TAP0, name=name)\n"
        "machine.devices[0] = dataclasses.replace(m.DEVICE0, ifname=name)\n"
        "output.is_terminal = lambda: True\n"
        "sys.exit(main([]) + main(['status', '*xff']) + main(['metrics']))\n"
    )
    environment = {"LC_ALL": locale, "COLUMNS": "50", "PATH": os.environ["PATH"]}
    if "8859" in locale:  # there is no such locale everywhere
        environment = {**environment, "LC_ALL": "C", "PYTHONIOENCODING": "iso-8859-1"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, str(tmp_path)],
        cwd=REPOSITORY, env=environment, capture_output=True,
    )
    assert (done.returncode, done.stderr) == (1, b"sluice: *xff: nothing matches; "
                                              b"see: sluice status\n")
    assert b"\\x" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(run, shell: str) -> None:
    script = run(["completion", shell]).out
    assert "_SLUICE_COMPLETE" in script and script.count("\n") > 10
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def _command(*arguments: str, **more: object) -> subprocess.Popen:
    environment = {**os.environ, "SLUICE_TRACEBACK": ""}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


@pytest.mark.parametrize(("words", "status", "out", "err"), [
    ("metrics", 3, "", "sluice: python module click: missing; install python3-click"),
    ("--version", 0, "sluice 0.1.0\n", ""),
    ("on --help", 0, "Usage: sluice", ""),
])
def test_without_its_library(words: str, status: int, out: str, err: str) -> None:
    process = _command("-S", "-B", "-m", "sluice", *words.split())
    said = [text.decode() for text in process.communicate()]
    assert process.returncode == status
    assert said[0].startswith(out) and said[1].startswith(err), said
    assert said[1].count("\n") == bool(err)


@pytest.mark.parametrize("from_tree", [True, False])
def test_only_a_tree_installs_itself(tmp_path: Path, from_tree: bool) -> None:
    """A package manager removes what it has installed."""
    place = REPOSITORY if from_tree else tmp_path
    if not from_tree:
        shutil.copytree(REPOSITORY / "sluice", tmp_path / "sluice")
    command = [sys.executable, "-B", "-m", "sluice", "--help"]
    said = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
    words = {line.split()[0] for line in said.splitlines() if line.startswith("  ")}
    assert "status" in words
    assert ({"install", "uninstall"} <= words) is from_tree


def test_reader_that_leaves_early_gets_no_traceback() -> None:
    process = _command("-m", "sluice", "completion", "bash")
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait()


@pytest.mark.parametrize(("words", "completed"), [
    (["sluice", ""], [*cli.MODULES]),
    (["sluice", "o"], ["on", "off"]),
    (["sluice", "--json", "st"], ["status"]),
    (["sluice", "--n"], ["--netns"]),
    (["sluice", "--v"], ["--version"]),
    (["sluice", "on", "--q"], ["--qdisc"]),
    (["sluice", "on", "--qdisc", ""], list(config.QDISCS)),
    (["sluice", "on", "tap0", "tu"], ["tun0"]),
    (["sluice", "--netns", "r"], ["red"]),
    (["sluice", "off", "--netns", "r"], ["red"]),
    (["sluice", "completion", "z"], ["zsh"]),
    (["sluice", "ta"], ["tap0"]),
    (["sluice", "apply", "t"], ["tap0", "tun0"]),
    (["sluice", "forget", ""], ["vpn*", "tun9"]),
    (["sluice", "status", "--netns", "red", "t"], ["tap9"]),
])
def test_words_a_shell_completes(machine: Machine, monkeypatch, words, completed) -> None:
    machine.namespaces["red"] = 2
    config.PATH.write_text("vpn* off\ntun9 on\nvpn* on\n")
    there = [replace(TAP0, name="tap9")]
    here = machine.links
    monkeypatch.setattr(
        system, "read_links", lambda where: there if where.name == "red" else here
    )
    kind = click.shell_completion.get_completion_class("fish")
    complete = kind(cli.sluice, {}, "sluice", "_SLUICE_COMPLETE")
    found = complete.get_completions(words[1:-1], words[-1])
    assert [item.value for item in found] == completed
    assert all(item.help.endswith(".") for item in found if item.value in cli.MODULES)
    assert not any((item.help or "").endswith("...") for item in found)
