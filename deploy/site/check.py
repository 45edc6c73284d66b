"""Checks the site that `make docs` has built: it loads nothing from other hosts, since many users are offline."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

# Attributes that make a browser load something. A link (<a href>) does not.
LOADING = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src"), ("video", "src")}


class LoadedAddresses(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        relation = dict(attrs).get("rel") or ""
        for name, value in attrs:
            if (tag, name) in LOADING and value and relation not in ("canonical", "next", "prev"):
                self.addresses.append(value)


def find_foreign_addresses(folder: Path) -> list[str]:
    foreign = []
    for page in sorted(folder.rglob("*.html")):
        parser = LoadedAddresses()
        parser.feed(page.read_text(encoding="utf-8"))
        foreign += [f"{page.relative_to(folder)} loads {each}" for each in parser.addresses if "//" in each]
    for sheet in sorted(folder.rglob("*.css")):
        if "url(http" in sheet.read_text(encoding="utf-8"):
            foreign.append(f"{sheet.relative_to(folder)} loads an address of another host")
    return foreign


if __name__ == "__main__":
    problems = find_foreign_addresses(Path(sys.argv[1]))
    if problems:
        sys.exit("\n".join(problems))
