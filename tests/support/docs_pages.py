"""The examples in docs/: fenced blocks by their kind, and the links between pages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def read_code_blocks(page: str) -> list[tuple[str, str]]:
    """(kind, text) of each fenced block, in order."""
    return re.findall(r"```(\w+)\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def strip_code_blocks(text: str) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def find_anchors(text: str) -> set[str]:
    """What a heading can be linked by, as code hosts make it."""
    heads = re.findall(r"^#+ (.+)$", strip_code_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def find_links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", strip_code_blocks(text))
