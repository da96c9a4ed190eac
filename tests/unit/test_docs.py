# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation: its links lead somewhere, and it stays small."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(TREE)
    for pattern in ("*.md", "docs/**/*.md", "proofs/**/*.md")
    for path in TREE.glob(pattern)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


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


def test_readme_is_short() -> None:
    assert len((TREE / "README.md").read_text().splitlines()) <= 120


def test_a_checkout_is_small() -> None:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [TREE / name for name in done.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in paths if path.is_file()) < 5_000_000
