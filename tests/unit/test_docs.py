# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation: what it names exists, and it stays small."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(TREE)
    for pattern in ("*.md", "docs/**/*.md", "lab/*.md", "proofs/**/*.md")
    for path in TREE.glob(pattern)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "kmod|lab|tests|proofs|sluice|packaging|series|docs|man|bin"
NAMED = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w./*+-]+)")
MADE = {"kmod/sluice.ko", "lab/results/NAME.json"}  # not in the tree
MAKE = re.compile(r"(?:`|^ {4,})make ([a-z][\w-]*)", re.MULTILINE)
RULE = re.compile(r"^([a-z][\w -]*):", re.MULTILINE)


def parse_anchor(heading: str) -> str:
    """What a heading can be linked by."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors_of(text: str) -> set[str]:
    return {
        parse_anchor(line.lstrip("#")) for line in text.splitlines() if line[:1] == "#"
    }


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (TREE / page.parent / name) if name else TREE / page
        if not target.exists():
            dead.append(link)
        elif anchor and target.suffix == ".md":
            if anchor not in anchors_of(target.read_text()):
                dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page) -> None:
    assert dead_links(page, (TREE / page).read_text()) == []


def test_a_dead_link_is_found() -> None:
    text = "[a](README.md) [b](nowhere.md) [c](README.md#nothing)"
    assert dead_links(Path("page.md"), text) == ["nowhere.md", "README.md#nothing"]


def missing_files(text: str) -> list[str]:
    """What a page names and the tree does not have; a proof may lack its suffix."""
    names = {name.rstrip("./") for name in NAMED.findall(text)} - MADE
    return sorted(name for name in names if not list(TREE.glob(f"{name}*")))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_files_that_a_page_names_exist(page) -> None:
    assert missing_files((TREE / page).read_text()) == []


def test_a_missing_file_is_found() -> None:
    assert missing_files("see kmod/queue.c, kmod/pace.c") == ["kmod/pace.c"]


def unknown_targets(text: str) -> set[str]:
    rules = RULE.findall((TREE / "Makefile").read_text())
    return set(MAKE.findall(text)) - {name for rule in rules for name in rule.split()}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_make_targets_that_a_page_names_exist(page) -> None:
    assert unknown_targets((TREE / page).read_text()) == set()


def test_an_unknown_target_is_found() -> None:
    assert unknown_targets("`make test`\n    make tset\n") == {"tset"}


def _scenarios() -> dict[str, str]:
    paths = TREE.glob("tests/*/scenarios/[a-z]*.py")
    return {path.stem: path.read_text() for path in paths}


def unknown_scenarios(text: str) -> set[str]:
    """MODULE.FUNCTION of a scenario's module, without such a function."""
    known = _scenarios()
    return {
        f"{module}.{function}"
        for module, function in re.findall(r"\b(\w+)\.(\w+_\w+)\b", text)
        if module in known and f"def {function}(" not in known[module]
    }


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_scenarios_that_a_page_names_exist(page) -> None:
    assert unknown_scenarios((TREE / page).read_text()) == set()


def test_an_unknown_scenario_is_found() -> None:
    assert unknown_scenarios("xdp.xdp_does_nothing") == {"xdp.xdp_does_nothing"}


def test_results_name_no_folder_of_a_machine() -> None:
    texts = [path.read_text() for path in (TREE / "lab/results").iterdir()]
    assert re.findall(r'"/(?:tmp|root|home|work)/[^"]*', "".join(texts)) == []


def _bytes(pattern: str) -> int:
    return sum(path.stat().st_size for path in TREE.glob(pattern))


def test_results_and_pictures_are_small() -> None:
    assert 0 < _bytes("lab/results/*") < 1_000_000
    assert 0 < _bytes("docs/**/*.svg") < 300_000


def test_every_result_is_cited() -> None:
    text = "".join((TREE / page).read_text() for page in PAGES)
    names = {path.name for path in (TREE / "lab/results").iterdir()}
    cited = set(re.findall(r"[\w.-]+\.json", text))
    assert names - cited - {f"cost-{k}.json" for k in ("5.10", "6.1", "6.12")} == set()


@pytest.mark.parametrize(("page", "most"), [("README.md", 100), ("docs/design.md", 250)])
def test_page_is_short(page, most) -> None:
    assert len((TREE / page).read_text().splitlines()) <= most


def test_a_checkout_is_small() -> None:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [TREE / name for name in done.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in paths if path.is_file()) < 5_000_000
