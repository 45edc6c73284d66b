"""The site of `make docs`: every page is in its navigation, and its links are rewritten as its hook says."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import yaml

from deploy.site.check import find_foreign_addresses
from tests.support.docs_pages import DOCS, ROOT, find_links

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
HOOK = ROOT / "deploy" / "site" / "links.py"
MAX_IMAGE_BYTES = 150_000


def iterate_pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for child in entry.values() if isinstance(entry, dict) else entry:
            yield from iterate_pages(child)


NAVIGATION = list(iterate_pages(CONFIG["nav"]))


def test_every_page_is_in_the_navigation() -> None:
    missing = {page.name for page in DOCS.glob("*.md")} - set(NAVIGATION)
    assert missing == set(), "add them to `nav` in mkdocs.yml"


def test_every_entry_of_the_navigation_exists() -> None:
    assert len(NAVIGATION) == len(set(NAVIGATION))
    for entry in NAVIGATION:
        path = ROOT / entry.removeprefix("project/") if entry.startswith("project/") else DOCS / entry
        assert path.is_file(), entry


def test_pages_of_the_project_are_those_of_the_hook() -> None:
    tree = ast.parse(HOOK.read_text())
    (pages,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PROJECT_PAGES"
    )
    assert sorted(f"project/{page}" for page in pages) == sorted(
        entry for entry in NAVIGATION if entry.startswith("project/")
    )


def test_pictures_are_small_and_used() -> None:
    used = {
        link.rpartition("/")[2]
        for page in [ROOT / "README.md", *DOCS.glob("*.md")]
        for link in find_links(page.read_text())
        if link.endswith((".png", ".svg"))
    }
    pictures = [*(DOCS / "images").iterdir(), *DOCS.glob("*.svg")]
    assert {picture.name for picture in pictures} == used
    for picture in pictures:
        assert picture.stat().st_size < MAX_IMAGE_BYTES, picture.name


def test_a_page_that_loads_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><a href="https://example.org">fine</a>'
        '<script src="assets/own.js"></script>'
    )
    assert find_foreign_addresses(tmp_path) == ["page.html loads https://fonts.example/a.css"]
