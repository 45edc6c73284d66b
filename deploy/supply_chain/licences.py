"""The page docs/licences.md: licences of the packages that serving needs, and of the weights."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata
from typing import TYPE_CHECKING, Final

from deploy.supply_chain.lock_file import read_lock
from deploy.supply_chain.weights import WEIGHTS

if TYPE_CHECKING:
    from importlib.metadata import PackageMetadata
    from pathlib import Path

_CLASSIFIER: Final = "License :: OSI Approved :: "
_MAX_LICENCE_CHARS: Final = 60  # some packages put the whole text into the field
# Packages whose metadata names no licence: from the licence file that they install.
_FROM_LICENCE_FILE: Final = {"protobuf": "BSD-3-Clause"}

INTRODUCTION = """\
# Licences

labelwatch is licensed under Apache-2.0. `make sbom` writes bills of materials in CycloneDX, of the wheel and of the image. `make
schemas` writes this page.

## Weights

| weights | licence | origin |
|---|---|---|
"""
PACKAGES = """
The default model is derived from a corpus with restricted text. We include no text of it, and the weights do not contain it. Whether
your use of weights that are derived from such a corpus is covered depends on your jurisdiction: if that matters to you, train a
model on your own labels with `labelwatch train`, which starts from an encoder without that corpus.

## Packages

What `pip install labelwatch` installs, by the lock file `deploy/requirements/serving.txt`. Licences are as the packages declare them.

| package | version | licence |
|---|---|---|
"""


def render_page(root: Path) -> str:
    weights = "".join(f"| {each.name} (`{each.folder}`) | {each.licence} | {each.origin} |\n" for each in WEIGHTS)
    rows = []
    for package in read_lock(root / "deploy" / "requirements" / "serving.txt"):
        licence = find_licence(package.name)
        if licence is None:
            raise ValueError(
                f"{package.name} declares no licence: read its licence file and add it to _FROM_LICENCE_FILE"
            )
        rows.append(f"| {package.name} | {package.version} | {licence} |\n")
    return INTRODUCTION + weights + PACKAGES + "".join(rows)


def find_licence(package: str) -> str | None:
    """The licence that an installed package declares; for one that this platform does not need, that fact."""
    try:
        declared = metadata(package)
    except PackageNotFoundError:
        return "not needed on Linux"
    return _read_licence(declared) or _FROM_LICENCE_FILE.get(package)


def _read_licence(declared: PackageMetadata) -> str | None:
    if "License-Expression" in declared:
        return declared["License-Expression"]
    text = declared["License"].strip() if "License" in declared else ""
    if text and "\n" not in text and len(text) <= _MAX_LICENCE_CHARS:
        return text
    classifiers = [
        each.removeprefix(_CLASSIFIER) for each in declared.get_all("Classifier") or () if each.startswith(_CLASSIFIER)
    ]
    return ", ".join(classifiers) or None
