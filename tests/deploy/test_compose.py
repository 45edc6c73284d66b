"""deploy/compose.yaml: valid by the specification's schema, and everything it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from service import __version__
from tests.deploy.image import parse_instructions
from tests.deploy.variables import parse_settings

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("labelwatch"))


def test_it_is_valid() -> None:
    tool = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run(
        [tool, "--builtin-schema", "vendor.compose-spec", FILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_no_rights_they_don_t_need(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    # Kafka's image writes its configuration as it starts.
    assert service.get("read_only", False) == (name != "kafka")


@pytest.mark.parametrize("name", SERVICES)
def test_images_have_versions_and_no_registry(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].partition(":")
    assert "." not in image
    assert re.match(r"v?\d+\.\d+\.\d+$", tag)
    assert (tag == __version__) == (name in OURS)


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_names_is_there(name: str) -> None:
    service = SERVICES[name]
    assert set(service.get("depends_on", ())) <= set(SERVICES)
    for other, wanted in service.get("depends_on", {}).items():
        if wanted["condition"] == "service_healthy":
            assert "test" in SERVICES[other]["healthcheck"]
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (FILE.parent / source).is_dir(), volume
            assert volume.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]
    if "build" in service:
        assert (FILE.parent / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("name", OURS)
def test_the_settings_are_those_there_are(name: str) -> None:
    given = SERVICES[name]["environment"]
    settings = parse_settings({key: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for key, value in given.items()})
    assert settings.kafka is not None
    host, port = settings.kafka.servers[0].split(":")
    assert f"INSIDE://{host}:{port}" in SERVICES[host]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_kept_in_memory_has_a_limit(name: str) -> None:
    """A tmpfs without a size takes up to half the machine's memory."""
    for each in SERVICES[name].get("tmpfs", ()):
        assert re.fullmatch(r"/\w+:size=\d+m", each)


def test_long_requests_wait_on_disk() -> None:
    api = SERVICES["api"]
    assert api["environment"]["TMPDIR"] in {volume.split(":")[1] for volume in api["volumes"]}


def test_each_worker_has_its_own_identity_and_the_input_has_a_partition_for_each() -> None:
    workers = [SERVICES[name]["environment"] for name in OURS if SERVICES[name]["command"] == ["worker"]]
    assert len({worker["LABELWATCH_WORKER_ID"] for worker in workers}) == len(workers) >= 2
    assert int(workers[0]["LABELWATCH_TOPICS_PARTITIONS"]) >= len(workers)


def test_the_image_s_health_check_finds_api_and_workers() -> None:
    """It asks one port; both must listen there, on an address that others reach."""
    text = dict(parse_instructions((ROOT / "Dockerfile").read_text()))["ENV"]
    image = dict(part.split("=", 1) for part in text.split() if part.startswith("LABELWATCH_"))
    settings = parse_settings(image)
    assert settings.api.port == settings.worker.metrics_port == settings.trainer.metrics_port == 8765
    assert settings.api.host == settings.worker.metrics_host == settings.trainer.metrics_host == "0.0.0.0"  # noqa: S104 - within its own network
    assert [name for name in OURS if "healthcheck" in SERVICES[name]] == ["topics"]


def test_prometheus_scrapes_the_services_that_there_are() -> None:
    config = yaml.safe_load((FILE.parent / "prometheus" / "prometheus.yml").read_text())
    targets = [
        target
        for job in config["scrape_configs"]
        for static in job.get("static_configs", ())
        for target in static["targets"]
        if job["job_name"].startswith("labelwatch")
    ]
    assert set(targets) == {f"{name}:8765" for name in OURS if name != "topics"}


def test_grafana_is_provisioned_from_what_is_mounted() -> None:
    mounted = {volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]}
    provisioning = FILE.parent / "grafana" / "provisioning"
    for provider in (provisioning / "dashboards").glob("*.y*ml"):
        for one in yaml.safe_load(provider.read_text())["providers"]:
            assert one["options"]["path"] in mounted
    (sources,) = (provisioning / "datasources").glob("*.y*ml")
    assert [one["url"] for one in yaml.safe_load(sources.read_text())["datasources"]] == ["http://prometheus:9090"]
