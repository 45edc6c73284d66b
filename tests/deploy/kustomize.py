"""As much of kustomize as deploy/kubernetes uses, so that the manifests are built in a test wherever it runs.

What the real one builds is kept in `kustomized/`, and compared with. What this doesn't know is an error, never left out
in silence. `python -m tests.deploy.kustomize` writes `kustomized/` anew, with kubectl.
"""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
RECORDED_FOLDER = Path(__file__).with_name("kustomized")
RECORDED = {"base": RECORDED_FOLDER / "base.yaml", "overlays/example": RECORDED_FOLDER / "example.yaml"}
MIN_KUSTOMIZE_VERSION = 5  # kustomize; Debian's kubectl has one from before there were components
KNOWN_FIELDS = {
    *("apiVersion", "kind", "resources", "components", "namespace", "labels"),
    *("configMapGenerator", "images", "replicas", "patches"),
}
CLUSTER_WIDE = {"Namespace"}
KINDS_WITH_TEMPLATE = {"Deployment", "StatefulSet", "Job"}
KINDS_WITH_SELECTOR = {"Deployment", "StatefulSet", "PodDisruptionBudget"}


def build(folder: Path) -> list[Document]:
    return _apply_kustomization(folder, [])


def _apply_kustomization(folder: Path, before: list[Document]) -> list[Document]:
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert not set(wanted) - KNOWN_FIELDS, f"{folder}: this stand-in does not know {set(wanted) - KNOWN_FIELDS}"
    documents = before
    for name in wanted.get("resources", ()):
        documents += build(folder / name) if (folder / name).is_dir() else _read_documents(folder / name)
    for name in wanted.get("components", ()):
        documents = _apply_kustomization(folder / name, documents)
    for generator in wanted.get("configMapGenerator", ()):
        _apply_config_map(documents, generator)
    for patch in wanted.get("patches", ()):
        _apply_patch(documents, patch, folder)
    for label in wanted.get("labels", ()):
        assert label["includeSelectors"]
        for document in documents:
            _apply_labels(document, label["pairs"])
    for replicas in wanted.get("replicas", ()):
        found = [
            one
            for one in documents
            if one["metadata"]["name"] == replicas["name"] and one["kind"] in KINDS_WITH_SELECTOR
        ]
        changed = [one for one in found if "replicas" in one["spec"]]
        assert changed, f"{folder}: nothing named {replicas['name']} has replicas"
        for one in changed:
            one["spec"]["replicas"] = replicas["count"]
    for image in wanted.get("images", ()):
        _apply_image(documents, image)
    if "namespace" in wanted:
        for document in documents:
            if document["kind"] not in CLUSTER_WIDE:
                document["metadata"]["namespace"] = wanted["namespace"]
    return documents


def _read_documents(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _apply_config_map(documents: list[Document], generator: dict[str, Any]) -> None:
    data = dict(literal.split("=", 1) for literal in generator["literals"])
    if generator.get("behavior") == "merge":
        (found,) = (
            one for one in documents if one["kind"] == "ConfigMap" and one["metadata"]["name"] == generator["name"]
        )
        found["data"].update(data)
    else:
        metadata = {"name": generator["name"]}
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _apply_labels(document: Document, pairs: dict[str, str]) -> None:
    places = [document["metadata"].setdefault("labels", {})]
    spec = document.get("spec", {})
    if document["kind"] in KINDS_WITH_TEMPLATE:
        template = spec["template"]
        places.append(template["metadata"]["labels"])
        spreads = template["spec"].get("topologySpreadConstraints", ())
        places += [spread["labelSelector"]["matchLabels"] for spread in spreads]
    if document["kind"] in KINDS_WITH_SELECTOR:
        places.append(spec["selector"]["matchLabels"])
    if document["kind"] == "Service":
        places.append(spec["selector"])
    if document["kind"] == "NetworkPolicy":
        places.append(spec["podSelector"]["matchLabels"])
    for place in places:
        place.update(pairs)


def _apply_image(documents: list[Document], image: dict[str, str]) -> None:
    for document in documents:
        if document["kind"] not in KINDS_WITH_TEMPLATE:
            continue
        for container in document["spec"]["template"]["spec"]["containers"]:
            if container["image"].split(":")[0] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"


def _apply_patch(documents: list[Document], patch: dict[str, Any], folder: Path) -> None:
    text = (folder / patch["path"]).read_text() if "path" in patch else patch["patch"]
    target = patch["target"]
    found = [
        one
        for one in documents
        if re.fullmatch(target["kind"], one["kind"]) and re.fullmatch(target.get("name", ".*"), one["metadata"]["name"])
    ]
    assert found, f"{folder}: nothing fits the patch for {target}"
    for one in found:
        for step in yaml.safe_load(text):
            _apply_patch_step(one, step)


def _apply_patch_step(document: Document, step: dict[str, Any]) -> None:
    *parents, last = step["path"].strip("/").replace("~1", "\0").split("/")
    place: Any = document
    for name in (parent.replace("\0", "/") for parent in parents):
        place = place[int(name)] if isinstance(place, list) else place[name]
    value = copy.deepcopy(step.get("value"))
    if isinstance(place, list):
        assert step["op"] == "add"
        assert last == "-"
        place.append(value)
        return
    last = last.replace("\0", "/")
    if step["op"] != "add":
        assert last in place, f"{step['path']} is not there"
    if step["op"] == "remove":
        del place[last]
    else:
        place[last] = value


# -- the real one ------------------------------------------------------------------------------------------------------


def build_with_kubectl(name: str) -> str | None:
    """What kustomize makes of a folder; none where there is no kubectl that is new enough."""
    if shutil.which("kubectl") is None:
        return None
    told = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Kustomize Version: v(\d+)", told)
    if found is None or int(found[1]) < MIN_KUSTOMIZE_VERSION:
        return None
    return subprocess.run(["kubectl", "kustomize", FOLDER / name], capture_output=True, text=True, check=True).stdout


def parse_without_hashes(text: str) -> dict[tuple[str, str], Document]:
    """By kind and name. It adds a hash to names of config maps, so that pods start anew with a changed one."""
    plain = re.sub(
        r"name: labelwatch-(?=[a-z0-9]{10}$)[a-z]*\d[a-z0-9]*$", "name: labelwatch", text, flags=re.MULTILINE
    )
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(plain)}


def main() -> None:
    for name, path in RECORDED.items():
        made = build_with_kubectl(name)
        if made is None:
            sys.exit("this needs kubectl 1.27 or newer: https://kubernetes.io/docs/tasks/tools/")
        path.write_text(made)


if __name__ == "__main__":
    main()
