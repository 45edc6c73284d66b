"""deploy/kubernetes: builds, is valid by the API's own schemas, and its parts fit each other and the settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from service import __version__
from service.log.topics import Topics
from tests.deploy.kustomize import (
    FOLDER,
    KINDS_WITH_TEMPLATE,
    RECORDED,
    ROOT,
    Document,
    build,
    build_with_kubectl,
    parse_without_hashes,
)
from tests.deploy.variables import parse_settings

CUSTOM = json.loads(Path(__file__).with_name("custom-resources.schema.json").read_text())
BUILT = {name: build(FOLDER / name) for name in RECORDED}
STALE = (
    "tests/deploy/kustomized is not what kustomize makes of deploy/kubernetes now: write it anew with `python -m"
    " tests.deploy.kustomize`, which needs kubectl 1.27 or newer (https://kubernetes.io/docs/tasks/tools/); if it changes"
    " nothing there, the stand-in in tests/deploy/kustomize.py builds something else"
)
SERVING = {"base": {"api", "worker"}, "overlays/example": {"api", "worker", "trainer"}}
# What a Secret gives that no manifest may hold.
SECRET = {
    "base": {},
    "overlays/example": {"LABELWATCH_KAFKA_SASL_USERNAME": "name", "LABELWATCH_KAFKA_SASL_PASSWORD": "word"},
}


def is_custom(document: Document) -> bool:
    return str(document["apiVersion"]).startswith(("keda.sh/", "monitoring.coreos.com/"))


def one(documents: list[Document], kind: str, name: str) -> Document:
    (found,) = (each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def pods(documents: list[Document]) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """(component, pod, labels) of everything that starts pods."""
    return [
        (
            template["metadata"]["labels"]["app.kubernetes.io/component"],
            template["spec"],
            template["metadata"]["labels"],
        )
        for each in documents
        if each["kind"] in KINDS_WITH_TEMPLATE
        for template in [each["spec"]["template"]]
    ]


@pytest.fixture(params=sorted(BUILT))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def documents(name: str) -> list[Document]:
    return BUILT[name]


def test_the_documents_are_valid(documents: list[Document], tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(each for each in documents if not is_custom(each)))
    tool = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run([tool, "--strict", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == sum(not is_custom(each) for each in documents)
    for each in documents:
        if is_custom(each):
            jsonschema_rs.validate(CUSTOM, each)


def test_it_is_what_kustomize_builds(name: str) -> None:
    """What it built stands in files, so that this is held to everywhere; where it is at hand, so are the files."""
    kept = RECORDED[name].read_text()
    ours = {(each["kind"], each["metadata"]["name"]): each for each in BUILT[name]}
    assert ours == parse_without_hashes(kept), STALE
    made = build_with_kubectl(name)
    assert made is None or parse_without_hashes(made) == parse_without_hashes(kept), STALE


def test_every_file_is_used() -> None:
    named = {"base/kustomization.yaml"}
    for file in FOLDER.rglob("kustomization.yaml"):
        wanted = yaml.safe_load(file.read_text())
        names = [*wanted.get("resources", ()), *wanted.get("components", ())]
        names += [patch["path"] for patch in wanted.get("patches", ()) if "path" in patch]
        named |= {str((file.parent / each).resolve().relative_to(FOLDER)) for each in names}
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml"}
    assert files <= named


def test_pods_have_no_rights_they_don_t_need(documents: list[Document], name: str) -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    assert {component for component, *_ in pods(documents)} == SERVING[name] | {"topics"}
    for _, pod, _ in pods(documents):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == int(user[1])
        assert pod["securityContext"]["runAsGroup"] == int(user[2])
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_pods_send_to_named_services_only(documents: list[Document]) -> None:
    rules = [
        rule
        for document in documents
        if document["kind"] == "NetworkPolicy" and "Egress" in document["spec"]["policyTypes"]
        for rule in document["spec"]["egress"]
    ]
    namespaces = {
        peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for rule in rules for peer in rule["to"]
    }
    assert namespaces == {"kube-system", "kafka"}
    assert all(rule["ports"] for rule in rules)


def test_services_set_no_variables(documents: list[Document]) -> None:
    """Kubernetes would set LABELWATCH_API_PORT=tcp://… for a Service named labelwatch-api."""
    for _, pod, _ in pods(documents):
        assert pod["enableServiceLinks"] is False


def test_the_settings_are_those_there_are(documents: list[Document], name: str) -> None:
    config = one(documents, "ConfigMap", "labelwatch")["data"]
    for component, pod, _ in pods(documents):
        (container,) = pod["containers"]
        assert container["envFrom"] == [
            {"configMapRef": {"name": "labelwatch"}},
            {"secretRef": {"name": "labelwatch"}},
        ]
        own = {each["name"]: each.get("value", "labelwatch-worker-0") for each in container.get("env", ())}
        fields = {
            each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
            for each in container.get("env", ())
            if "value" not in each
        }
        assert fields == ({"LABELWATCH_WORKER_ID": "metadata.name"} if component == "worker" else {})
        settings = parse_settings({**config, **SECRET[name], **own})
        assert settings.kafka is not None
        assert settings.metrics.open
        ports = {port for policy in documents if policy["kind"] == "NetworkPolicy" for port in egress(policy)}
        assert {int(server.split(":")[1]) for server in settings.kafka.servers} == ports - {53}


def egress(policy: Document) -> list[int]:
    return [port["port"] for rule in policy["spec"].get("egress", ()) for port in rule["ports"]]


def test_secrets_are_only_named(documents: list[Document]) -> None:
    assert not [each for each in documents if each["kind"] == "Secret"]
    text = json.dumps(documents)
    assert "API_KEYS=" not in text
    assert "PASSWORD=" not in text


def test_api_and_workers_are_probed_on_the_port_they_listen_on(documents: list[Document]) -> None:
    for component, pod, _ in pods(documents):
        if component == "topics":
            continue
        (container,) = pod["containers"]
        assert container["args"] == [component]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        name = "probes" if component == "api" else "http"
        assert ports == ({"http": 8765, "probes": 8766} if component == "api" else {"http": 8765})
        if component == "api":
            variables = {each["name"]: each["value"] for each in container["env"]}
            assert variables["LABELWATCH_API_METRICS_PORT"] == str(ports["probes"])
        probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        assert {kind: (probe["path"], probe["port"]) for kind, probe in probes.items()} == {
            "startup": ("/healthz", name),
            "liveness": ("/healthz", name),
            "readiness": ("/readyz", name),
        }
        assert pod["terminationGracePeriodSeconds"] >= 60


def test_selectors_find_their_pods(documents: list[Document], name: str) -> None:
    labels = {component: set(given.items()) for component, _, given in pods(documents)}
    selectors = {each["metadata"]["name"]: each["spec"]["selector"] for each in documents if each["kind"] == "Service"}
    budgets = {
        each["metadata"]["name"]: each["spec"]["selector"]["matchLabels"]
        for each in documents
        if each["kind"] in ("Deployment", "StatefulSet", "PodDisruptionBudget")
    }
    for found, components in ((selectors, {"api", "worker"}), (budgets, SERVING[name])):
        assert set(found) == {f"labelwatch-{component}" for component in components}
        for owner, selector in found.items():
            assert [part for part, given in labels.items() if set(selector.items()) <= given] == [owner.split("-")[1]]
    for each in documents:
        if each["kind"] == "NetworkPolicy":
            assert any(set(each["spec"]["podSelector"]["matchLabels"].items()) <= given for given in labels.values())
    assert one(documents, "StatefulSet", "labelwatch-worker")["spec"]["serviceName"] == "labelwatch-worker"


def test_scaling_looks_at_what_the_workers_read() -> None:
    documents = BUILT["overlays/example"]
    config = one(documents, "ConfigMap", "labelwatch")["data"]
    settings = parse_settings({**config, **SECRET["overlays/example"]})
    spec = one(documents, "ScaledObject", "labelwatch-worker")["spec"]
    workers = one(documents, spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"])
    assert "replicas" not in workers["spec"], "each apply would undo what KEDA decided"
    assert spec["maxReplicaCount"] <= settings.topics.partitions
    (trigger,) = spec["triggers"]
    assert settings.kafka is not None
    assert trigger["metadata"]["bootstrapServers"] == settings.kafka.bootstrap_servers
    assert trigger["metadata"]["topic"] == Topics(settings.topics.prefix).sentences
    assert trigger["metadata"]["consumerGroup"] == settings.worker.group
    assert (trigger["metadata"]["sasl"], settings.kafka.sasl_mechanism) == ("scram_sha512", "SCRAM-SHA-512")
    one(documents, "TriggerAuthentication", trigger["authenticationRef"]["name"])


def test_every_pod_is_scraped_as_the_alerts_expect() -> None:
    documents = BUILT["overlays/example"]
    spec = one(documents, "PodMonitor", "labelwatch")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    scraped = set()
    for component, pod, labels in pods(documents):
        fits = spec["selector"]["matchLabels"].items() <= labels.items()
        if fits and endpoint["port"] in {port["name"] for port in pod["containers"][0].get("ports", ())}:
            scraped.add(component)
            assert labels[spec["jobLabel"]] == "labelwatch"  # as in up{job="labelwatch"}
    assert scraped == SERVING["overlays/example"]
    # Without the operator: the annotations that many Prometheus configurations go by.
    for each in documents:
        if each["kind"] in ("Deployment", "StatefulSet"):
            assert each["spec"]["template"]["metadata"]["annotations"] == {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "8765",
            }


def test_only_the_trainer_writes_models() -> None:
    documents = BUILT["overlays/example"]
    claim = one(documents, "PersistentVolumeClaim", "labelwatch-models")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    writable = {}
    for component, pod, _ in pods(documents):
        for mount in pod["containers"][0]["volumeMounts"]:
            if mount["name"] == "models":
                writable[component] = not mount.get("readOnly", False)
                assert mount["mountPath"] == "/data/models"  # LABELWATCH_MODELS_PATH of the image
    assert writable == {"api": False, "worker": False, "trainer": True}


def test_temporary_files_have_room_and_a_limit(documents: list[Document], name: str) -> None:
    config = one(documents, "ConfigMap", "labelwatch")["data"]
    spool = parse_settings({**config, **SECRET[name]}).api.max_spool_bytes
    for component, pod, _ in pods(documents):
        (temporary,) = (volume for volume in pod["volumes"] if volume["name"] == "tmp")
        limit = bytes_of(temporary["emptyDir"]["sizeLimit"])
        if component == "api":
            assert limit > spool, "the pod would be evicted before the API refuses"
            assert bytes_of(pod["containers"][0]["resources"]["requests"]["ephemeral-storage"]) >= limit


def bytes_of(quantity: str) -> int:
    return int(quantity[:-2]) << 10 * (1 + ("Ki", "Mi", "Gi").index(quantity[-2:]))


def test_the_image_is_this_version_s(documents: list[Document]) -> None:
    assert {pod["containers"][0]["image"] for _, pod, _ in pods(documents)} == {f"labelwatch:{__version__}"}


def test_the_stand_in_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("namePrefix: x-\n")
    with pytest.raises(AssertionError, match="namePrefix"):
        build(tmp_path)
