"""Reads the pages of docs/: code blocks, links and anchors."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def read_code_blocks(page: str) -> list[tuple[str, str]]:
    """Kind and text of each fenced block, in order."""
    return re.findall(r"```(\w+)\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def strip_code_blocks(text: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def find_anchors(text: str) -> set[str]:
    """The anchors of the headings, as code hosts derive them."""
    headings = re.findall(r"^#+ (.+)$", strip_code_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def find_links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", strip_code_blocks(text))
