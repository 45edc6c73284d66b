"""Bills of materials in CycloneDX, of the wheel and of the image: `make sbom`.

The packages come from an environment that `deploy/install` made, as the image has it. The weights are added here, and for
the image its base. What Debian packages the base holds is known only to whoever builds the image: scan it there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from deploy.supply_chain.weights import WEIGHTS, build_component

if TYPE_CHECKING:
    from pathlib import Path

_FROM = re.compile(r"^FROM\s+(?P<image>\S+)(?!.*\bAS\b)", re.MULTILINE)
_ARGUMENT = re.compile(r"^ARG\s+(?P<name>\w+)=(?P<value>\S+)", re.MULTILINE)


def write_boms(root: Path, environment: Path, target: Path) -> list[Path]:
    """Writes the bill of the wheel and that of the image to the folder `target`."""
    target.mkdir(parents=True, exist_ok=True)
    wheel = read_environment(root, environment)
    wheel["components"].extend(build_component(root, weights) for weights in WEIGHTS)
    image = json.loads(json.dumps(wheel))
    image["metadata"]["component"]["type"] = "container"
    image["components"].append(build_base_component((root / "Dockerfile").read_text()))
    written = []
    for name, bom in (("wheel", wheel), ("image", image)):
        path = target / f"labelwatch.{name}.cdx.json"
        path.write_text(json.dumps(bom, indent=2, sort_keys=True) + "\n")
        written.append(path)
    return written


def read_environment(root: Path, environment: Path) -> dict[str, Any]:
    """The packages of an environment, with versions and licences. labelwatch itself is the subject of the bill."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON"]
    command += ["--pyproject", str(root / "pyproject.toml"), str(environment / "bin" / "python")]
    bom: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    bom["components"] = [each for each in bom["components"] if each["name"] != "labelwatch"]
    return bom


def build_base_component(dockerfile: str) -> dict[str, Any]:
    """The image that the last stage of the Dockerfile starts from."""
    match = list(_FROM.finditer(dockerfile))[-1]
    arguments = {each["name"]: each["value"] for each in _ARGUMENT.finditer(dockerfile)}
    image = re.sub(r"\$\{(\w+)\}", lambda name: arguments[name[1]], match["image"])
    name, _, tag = image.partition(":")
    return {
        "type": "container",
        "bom-ref": f"base/{image}",
        "name": name,
        "version": tag,
        "description": "Base of the image. Its Debian packages are not listed: scan the image that you build.",
    }
