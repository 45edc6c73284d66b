"""docs/architecture.md: every file and folder that it names exists, and every function or class in the file it names."""

from __future__ import annotations

import importlib
import re
from types import FunctionType

import pytest

from tests.support.docs_pages import DOCS, ROOT

TEXT = (DOCS / "architecture.md").read_text()
SPAN = re.compile(r"`((?:service|tests|docs|deploy|schemas|models)/[^`:]*)(?::([^`]+))?`")
REFERENCES: list[tuple[str, str]] = sorted(set(SPAN.findall(TEXT)))
SYMBOLS = [(path, symbol) for path, symbol in REFERENCES if symbol]
WAYS_IN = ("Kafka", "POST /v1/score", "POST /v1/sentences", "A file with `labelwatch score`")
LAYERS = re.compile(r"^    (cli > .*)$", re.MULTILINE)


@pytest.mark.parametrize("path", sorted({path for path, _ in REFERENCES}))
def test_named_paths_exist(path: str) -> None:
    target = ROOT / path
    assert target.is_dir() if path.endswith("/") else target.is_file(), path


@pytest.mark.parametrize(("path", "symbol"), SYMBOLS, ids=lambda value: value.rpartition("/")[2])
def test_named_symbols_exist(path: str, symbol: str) -> None:
    """Functions and classes are defined in the file itself, and not imported there."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    first, *rest = symbol.split(".")
    assert hasattr(module, first), f"{path} has no {first}"
    value = getattr(module, first)
    if isinstance(value, (type, FunctionType)):
        assert value.__module__ == module.__name__, f"{path} imports {first} from {value.__module__}"
    for name in rest:
        assert hasattr(value, name), f"{path}: {symbol}"
        value = getattr(value, name)


def test_symbols_have_a_path() -> None:
    """A class or a dotted name in code is written with its file, so that the test above can check it."""
    spans = re.findall(r"`([^`\n]+)`", TEXT)
    bare = [span for span in spans if re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*(\.\w+)*|\w+\(\)", span)]
    assert bare == []


@pytest.mark.parametrize("heading", WAYS_IN)
def test_every_way_in_is_a_numbered_list(heading: str) -> None:
    section = TEXT.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    steps = re.findall(r"^(\d+)\. ", section, re.MULTILINE)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert len(steps) >= 4


def test_every_folder_of_the_service_is_described() -> None:
    folders = {path.name for path in (ROOT / "service").iterdir() if (path / "__init__.py").is_file()}
    described = {path.split("/")[1] for path, _ in REFERENCES if re.fullmatch(r"service/\w+/", path)}
    assert folders - described == {"formats", "settings"}
    assert {name for name in ("formats", "settings") if f"`{name}`" in TEXT} == {"formats", "settings"}


def test_the_layers_are_those_of_contributing() -> None:
    (here,), (there,) = LAYERS.findall(TEXT), LAYERS.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert here == there
    contract = (ROOT / "pyproject.toml").read_text().split("layers = [", 1)[1].split("]", 1)[0]
    assert [set(re.findall(r"service\.(\w+)", line)) for line in contract.splitlines() if "service." in line] == [
        set(layer.split(" | ")) for layer in here.split(" > ")
    ]
