"""Bills of materials, licences and the check for known vulnerabilities."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.supply_chain import advisories
from deploy.supply_chain.lock_file import normalize_name, read_lock
from deploy.supply_chain.sbom import build_base_component, write_boms

ROOT = Path(__file__).resolve().parents[2]
SERVING = ROOT / "deploy" / "requirements" / "serving.txt"


def test_bills_of_materials_name_packages_weights_and_the_base_of_the_image(tmp_path: Path) -> None:
    wheel_path, image_path = write_boms(ROOT, Path(sys.prefix), tmp_path)
    for path in (wheel_path, image_path):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(path.read_text()) is None
    wheel, image = json.loads(wheel_path.read_text()), json.loads(image_path.read_text())
    assert wheel["metadata"]["component"]["name"] == "labelwatch"
    listed = {(normalize_name(each["name"]), each.get("version")) for each in wheel["components"]}
    assert {(package.name, package.version) for package in read_lock(SERVING) if package.marker is None} <= listed
    models = {each["name"]: each for each in wheel["components"] if each["type"] == "machine-learning-model"}
    (weights,) = (each for each in models["labelwatch-small-en"]["components"] if each["name"] == "model.weights")
    content = (ROOT / "models" / "default" / "model.weights").read_bytes()
    assert weights["hashes"][0]["content"] == hashlib.sha256(content).hexdigest()
    assert "Reuters" in models["labelwatch-small-en"]["description"]
    (base,) = (each for each in image["components"] if each["type"] == "container")
    assert base["name"] == "python"
    assert base not in wheel["components"]


def test_the_base_is_that_of_the_last_stage() -> None:
    dockerfile = "ARG V=3.11\nFROM python:${V} AS build\nRUN make\nFROM python:${V}-slim\nCOPY --from=build /a /a\n"
    component = build_base_component(dockerfile)
    assert (component["name"], component["version"]) == ("python", "3.11-slim")


def test_a_lock_file_is_read_with_extras_and_markers(tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(
        "Kafka_Python[crc32c]==3.0.12 \\\n    --hash=sha256:aa\nuvloop==1.0 ; sys_platform != 'win32' \\\n    --hash=sha256:bb\n"
    )
    assert read_lock(path) == [("kafka-python", "3.0.12", None), ("uvloop", "1.0", "sys_platform != 'win32'")]
    lines = [line for line in SERVING.read_text().splitlines() if line[:1].isalnum()]
    assert len(read_lock(SERVING)) == len(lines)


def test_an_unreachable_database_is_no_clean_result() -> None:
    skipped = {"name": "a", "skip_reason": "Dependency not found"}
    clean = {"name": "b", "version": "1", "vulns": []}
    vulnerable = {"name": "c", "version": "2", "vulns": [{"id": "CVE-2026-1"}]}
    nothing = advisories.summarize("serving.txt", [skipped])
    assert nothing == (
        advisories.NOT_CHECKED,
        "serving.txt: nothing was checked: no advisory database is reachable",
    )
    assert advisories.summarize("serving.txt", [clean]).exit_code == advisories.CLEAN
    partly = advisories.summarize("serving.txt", [clean, skipped])
    assert partly.exit_code == advisories.NOT_CHECKED
    assert "1 of 2 packages checked" in partly.report
    found = advisories.summarize("serving.txt", [clean, skipped, vulnerable])
    assert found.exit_code == advisories.VULNERABLE
    assert "c 2: CVE-2026-1" in found.report
