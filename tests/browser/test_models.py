"""The models of a dataset in the overview: from the first sentence that waits to the model in use."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from service.contracts import Training
from service.datasets.settings_records import build_settings_message
from service.datasets.trainings import build_training_message
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.runtime.lifecycle.lease import FileLease
from tests.browser.harness import run_service, take_screenshot, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.harness import BrowserHarness, ServiceProcess

DATASET = "medicine"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service whose trainer waits, because the tests have the lease: they write the records of trainings themselves."""
    folder = tmp_path_factory.mktemp("service")
    with closing(FileLease(folder / f"log.sqlite.{Topics().models}.lock")) as lease:
        assert lease.is_held
        with run_service(folder) as process:
            yield process


def send_unknown_labels(service: ServiceProcess, n: int, dataset: str = DATASET) -> None:
    service.send(
        *(
            {"dataset": dataset, "id": str(i), "tokens": ["Velorin", "helped", str(i)], "labels": ["B-DRUG", "O", "O"]}
            for i in range(n)
        )
    )
    wait_for(lambda: count_waiting(service, dataset) == n, "the sentences that wait")


def count_waiting(service: ServiceProcess, dataset: str) -> int:
    if all(known["name"] != dataset for known in service.call("GET", "/v1/datasets")["datasets"]):
        return 0
    return int(service.call("GET", f"/v1/datasets/{dataset}/models")["waiting"])


def write_training(service: ServiceProcess, **fields: Any) -> None:
    training = Training.model_validate(
        {"dataset": DATASET, "model": "medicine-v1", "started_at": datetime.now(UTC), "arrived": 12, **fields}
    )
    with closing(SqliteLog(service.log_path, Topics())) as log:
        log.append([build_training_message(Topics().models, training)])


def write_settings(service: ServiceProcess, **fields: Any) -> None:
    """Writes settings that the service would refuse, as another producer can."""
    with closing(SqliteLog(service.log_path, Topics())) as log:
        log.append([build_settings_message(Topics().datasets, fields)])


def test_the_way_to_the_first_model(harness: BrowserHarness) -> None:
    service = harness.service
    send_unknown_labels(service, 12)
    page = harness.open_page(f"#/overview?dataset={DATASET}")
    section = page.locator(f"#models-{DATASET}")
    expect(section).to_contain_text("12 sentences wait for a model that knows the labels")
    expect(section.locator(".training-progress")).to_have_text("12 of 300 sentences until the first model")
    take_screenshot(page, "models-waiting")

    # The page follows the training although nothing happens in the queue.
    write_training(service, result="running", progress={"step": "encode", "done": 40, "total": 120})
    expect(section.locator(".training-progress")).to_have_text("medicine-v1 is being trained: encoding")
    reason = "no entity type has 10 examples"
    write_training(service, result="refused", reason=reason, ended_at=datetime.now(UTC))
    row = section.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row.locator("th")).to_have_text("medicine-v1")
    expect(row).to_contain_text("not trained")
    expect(row).to_contain_text(reason)
    types = [{"name": "DRUG", "examples": 90, "precision": 0.8, "recall": 0.7, "f1": 0.75}]
    write_training(
        service, model="medicine-v2", result="not_used", reason="it is worse", f1=0.71, sentences=298, types=types
    )
    expect(section.locator("tbody tr")).to_have_count(2)
    newest = section.locator("tbody tr").first
    expect(newest).to_contain_text("0.71")
    expect(newest).to_contain_text("DRUG 0.75")
    expect(newest.locator(".note")).to_have_text("it is worse")
    take_screenshot(page, "models")


def test_a_dataset_that_its_model_fits_has_no_section(harness: BrowserHarness) -> None:
    page = harness.open_page("#/overview?dataset=sample")
    expect(page.locator(".figures")).to_be_visible()
    expect(page.locator("#models-sample")).to_have_count(0)


def test_the_queue_of_a_dataset_that_waits_says_so_and_what_to_do(harness: BrowserHarness) -> None:
    send_unknown_labels(harness.service, 12, "pharmacy")
    page = harness.open_page("#/queue?dataset=pharmacy")
    stage = page.locator(".empty-stage")
    expect(stage.locator("h2")).to_have_text("12 sentences wait for a model")
    expect(stage).to_contain_text("The model has no class for B-DRUG in pharmacy.")
    expect(stage.locator("code").first).to_have_text("labelwatch train --dataset pharmacy --name pharmacy")
    take_screenshot(page, "queue-waiting")
    notice = page.locator(".notice.waits")
    expect(notice).to_have_text("pharmacy: 12 sentences wait for a model. Show the way to one")
    notice.get_by_role("link").click()
    expect(page.locator("#models-pharmacy")).to_contain_text("12 sentences wait for a model")
    page = harness.open_page("#/queue?dataset=sample")
    expect(page.locator(".item").first).to_be_visible()
    expect(page.locator(".notice.waits")).to_have_count(0)


def test_a_missing_model_is_named_and_the_overview_is_shown_all_the_same(harness: BrowserHarness) -> None:
    write_settings(harness.service, name="orphan", version=1, model="gone")
    harness.expected_statuses.add(503)  # there are no thresholds without the model
    wait_for(
        lambda: any(each["name"] == "orphan" for each in harness.service.call("GET", "/v1/datasets")["datasets"]),
        "the dataset",
    )
    for address in ("#/overview?dataset=orphan", "#/overview"):
        page = harness.open_page(address)
        expect(page.locator(".notice", has_text="the dataset 'orphan' needs the model 'gone'")).to_be_visible()
        expect(page.locator(".figures")).to_be_visible()
    write_settings(harness.service, name="orphan", version=2)  # other tests use the same service
