"""docs/troubleshooting.md: every text that it quotes is one that the code writes."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.support.docs_pages import ROOT, read_code_blocks

QUOTES = [block.strip() for kind, block in read_code_blocks("troubleshooting.md") if kind == "text"]
GAP = "…"


@cache
def read_texts() -> list[str]:
    """All texts of the code. What is computed is a gap."""
    texts = []
    for path in (ROOT / "service").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def occurs(quote: str, text: str) -> bool:
    """Whether the parts of the quote occur in the text, in order."""
    start = 0
    for part in filter(None, (part.strip() for part in quote.split(GAP))):
        start = text.find(part, start)
        if start < 0:
            return False
        start += len(part)
    return True


def test_there_are_quotes() -> None:
    assert len(QUOTES) > 15


@pytest.mark.parametrize("quote", QUOTES)
def test_the_code_writes_the_text(quote: str) -> None:
    assert any(occurs(quote, text) for text in read_texts())


def test_a_text_that_nobody_writes_is_found() -> None:
    assert not any(occurs(f"the kettle {GAP} is empty of tea", text) for text in read_texts())
