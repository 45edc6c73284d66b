"""Writes the files that are generated from the code: `python -m schemas.generate`, or `make schemas`.

    *.schema.json, asyncapi.yaml, openapi.json            here
    configuration.md, licences.md, limits in security.md  in docs/
    released/VERSION/ (copies of schemas and examples)    with --release: once per version, before it is tagged

A test fails if a file differs from what this module would write.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import yaml

from deploy.supply_chain import licences
from schemas import configuration, events, limits, messages
from service import __version__
from service.api.app import create_app
from service.errors import SettingsError
from service.settings import ApiSettings
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from service.api.backend import Backend

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXAMPLES = HERE / "examples"
RELEASED = HERE / "released"


def render_files() -> dict[Path, str]:
    """The text of each generated file by its path."""
    files = {HERE / f"{name}.schema.json": _to_json(schema) for name, schema in messages.build_schemas().items()}
    files[HERE / "asyncapi.yaml"] = _to_yaml(events.build_document())
    files[HERE / "openapi.json"] = _to_json(build_openapi())
    files[ROOT / "docs" / "configuration.md"] = configuration.render_configuration()
    files[ROOT / "docs" / "security.md"] = limits.render_security(ROOT / "docs" / "security.md")
    files[ROOT / "docs" / "licences.md"] = licences.render_page(ROOT)
    return files


def build_openapi() -> dict[str, Any]:
    """The document that a service with default settings serves. Building it needs only these parts of the backend."""
    parts = SimpleNamespace(
        settings=ApiSettings(), telemetry=Telemetry(), key_view=None, audit_view=None, open_metrics=False
    )
    return create_app(cast("Backend", parts)).openapi()


def _to_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _to_yaml(value: object) -> str:
    header = "# Written by `make schemas`: change service/ or schemas/events.py instead.\n"
    return header + yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)


def freeze_release(version: str) -> Path:
    """Copies the schemas and examples of a version. Later versions must be able to read messages like these."""
    folder = RELEASED / version
    if folder.exists():
        raise SettingsError(
            f"{version} is frozen already, in schemas/released/{version}: raise the version in service/__init__.py,"
            " or delete that folder if it was never released"
        )
    shutil.copytree(EXAMPLES, folder / "examples")
    for path in HERE.glob("*.schema.json"):
        shutil.copy(path, folder / path.name)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description="Write schemas and reference from the code.")
    parser.add_argument("--release", action="store_true", help="also freeze a copy for this version")
    arguments = parser.parse_args()
    for path, text in render_files().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    if arguments.release:
        try:
            sys.stdout.write(f"froze {freeze_release(__version__).relative_to(ROOT)}\n")
        except SettingsError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
