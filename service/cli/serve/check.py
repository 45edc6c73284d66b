"""`labelwatch check`: checks settings, model, log, topics and their content. Each line is ok or says what to change."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import typer

from service.cli.shared.terminal import sanitize
from service.datasets.waiting import WaitingDatasets, explain_waiting
from service.errors import LabelwatchError, SettingsError
from service.inference.classifier import Classifier
from service.inference.providers import parse_providers
from service.labels.unknown_labels import format_names
from service.log.sqlite.admin import describe_log_file
from service.log.sqlite.guard import describe_full_disk
from service.log.sqlite.integrity import find_damage, find_log_damage
from service.runtime.datasets.settings import load_datasets
from service.runtime.load_model import build_model_pool, load_model_folder
from service.runtime.open_log import build_topics, describe_missing_embedded_log, open_existing_log
from service.runtime.stored_records import find_unreadable_records
from service.runtime.webhooks import describe_unsent_webhooks
from service.settings import ENV_PREFIX, find_unknown_variables, read_settings
from service.stream.state.reader import check_memories, read_state
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.datasets.registry import DatasetRegistry
    from service.inference.model.folder import ModelFolder
    from service.log.topics import Topics
    from service.settings import Settings
    from service.settings.kafka import KafkaSettings


class CheckResult(NamedTuple):
    ok: bool
    subject: str
    message: str


def check() -> None:
    """Check settings, model, log and topics, and print what to change. Exit code 1 if anything is wrong."""
    all_ok = True
    for result in _run_checks():
        all_ok = all_ok and result.ok
        typer.echo(sanitize(f"{'ok   ' if result.ok else 'WRONG'} {result.subject}: {result.message}"))
    if not all_ok:
        raise typer.Exit(1)


def _run_checks() -> Iterator[CheckResult]:
    for variable in find_unknown_variables(os.environ):
        yield CheckResult(False, "settings", f"{variable} is not a setting: correct its name or remove it")
    settings, problems = _read_usable_settings()
    yield from (CheckResult(False, "settings", problem) for problem in problems)
    if settings is None:
        return
    yield CheckResult(True, "settings", f"topics {build_topics(settings).prefix}*, group {settings.worker.group}")
    folder: ModelFolder | None = None
    try:
        loaded = load_model_folder(settings)
        yield CheckResult(True, "model", _check_model(loaded, settings))
        folder = loaded
    except LabelwatchError as error:
        yield CheckResult(False, "model", str(error))
    topics = build_topics(settings)
    log_results = list(
        _check_kafka(settings.kafka, topics) if settings.kafka is not None else _check_embedded_log(settings, topics)
    )
    yield from log_results
    if settings.kafka is None and settings.log.path.exists() and all(result.ok for result in log_results):
        yield from _check_records(settings.log.path, topics)
    yield from _check_queue(settings.queue_path)
    yield from _check_disks(settings)
    if (
        folder is not None
        and all(result.ok for result in log_results)
        and (settings.kafka or settings.log.path.exists())
    ):
        yield from _check_contents(settings, folder, topics)


def _read_usable_settings() -> tuple[Settings | None, list[str]]:
    """The settings without the variables that can't be used, and the problems of those. The rest is checked too."""
    environment = dict(os.environ)
    problems: list[str] = []
    try:
        while True:
            try:
                return read_settings(), problems
            except SettingsError as error:
                problems.append(str(error))
                variable = str(error).partition(":")[0]
                group = "_".join(variable.split("_")[:2]) + "_"
                names = [name for name in os.environ if name.upper() == variable]
                # If a variable is missing, those of its group are of no use without it.
                names = names or [name for name in os.environ if name.upper().startswith(group)]
                if not variable.startswith(ENV_PREFIX) or not names:
                    return None, problems
                for name in names:
                    del os.environ[name]
    finally:
        os.environ.update(environment)


def _check_model(folder: ModelFolder, settings: Settings) -> str:
    providers = parse_providers(settings.model.providers)
    classifier = Classifier(folder, threads=settings.model.threads, providers=providers)
    batching = "" if classifier.batching == "planned" else ", each sentence runs alone since batches change its answers"
    start = "start from its held-out words" if folder.held_out else f"start after {settings.worker.min_words} words"
    return f"{folder.name} ({folder.fingerprint[:12]}), {len(folder.labels)} classes, thresholds {start}{batching}"


def _check_embedded_log(settings: Settings, topics: Topics) -> Iterator[CheckResult]:
    """Checks the embedded log without creating it."""
    path = settings.log.path
    if not path.exists():
        if missing := describe_missing_embedded_log(settings):
            yield CheckResult(False, "log", missing)
            return
        parent = next(parent for parent in path.resolve().parents if parent.exists())
        try:
            # Permissions are not enough: a full or read-only file system shows only when a file is created.
            with tempfile.TemporaryFile(dir=parent):
                pass
        except OSError as error:
            yield CheckResult(
                False,
                "log",
                f"LABELWATCH_LOG_PATH: can't create {path}, {parent} is not writable: {error.strerror or error}",
            )
            return
        yield CheckResult(
            True, "log", f"embedded, {path} will be created; set LABELWATCH_KAFKA_BOOTSTRAP_SERVERS for Kafka"
        )
        return
    if not os.access(path, os.R_OK | os.W_OK):
        yield CheckResult(False, "log", f"LABELWATCH_LOG_PATH: no permission to read and write {path}")
        return
    try:
        damage = find_log_damage(path)
        reports = [] if damage else describe_log_file(path, topics)
    except LabelwatchError as error:
        yield CheckResult(False, "log", f"LABELWATCH_LOG_PATH: {error}")
        return
    if damage:
        yield CheckResult(
            False,
            "log",
            f"{path} is damaged: {'; '.join(damage)}. Stop labelwatch and restore a backup with `labelwatch restore`",
        )
        return
    size = pluralize(sum(report.records for report in reports), "record")
    yield CheckResult(True, "log", f"embedded, {path}, {size} in {topics.prefix}*")


def _check_records(path: Path, topics: Topics) -> Iterator[CheckResult]:
    """Reads each record of the embedded log as its topic has it."""
    try:
        unreadable = find_unreadable_records(path, topics)
    except LabelwatchError as error:
        yield CheckResult(False, "records", str(error))
        return
    if unreadable.total:
        yield CheckResult(
            False,
            "records",
            f"{pluralize(unreadable.total, 'record')} of {path} can't be read: {unreadable}. What they hold is missing: restore "
            "a backup with `labelwatch restore`, or send it again",
        )


def _check_queue(path: Path) -> Iterator[CheckResult]:
    """Checks the file of the review queue, if there is one."""
    if not path.exists():
        return
    try:
        damage = find_damage(path)
    except LabelwatchError as error:
        damage = [str(error)]
    if damage:
        remedy = "Restart the API: it builds the file again from the topics"
        yield CheckResult(False, "queue", f"{path} is damaged: {'; '.join(damage)}. {remedy}")
    else:
        yield CheckResult(True, "queue", f"{path}, not damaged")


def _check_disks(settings: Settings) -> Iterator[CheckResult]:
    """Finds disks of log and queue that are so full that the service writes nothing."""
    files = [settings.queue_path] if settings.kafka is not None else [settings.log.path, settings.queue_path]
    for folder in dict.fromkeys(file.parent for file in files):
        if reason := describe_full_disk(folder, settings.log.reserve_bytes):
            yield CheckResult(False, "disk", reason)


def _check_kafka(kafka: KafkaSettings, topics: Topics) -> Iterator[CheckResult]:
    from service.log.kafka.admin import count_brokers, describe_topics

    try:
        brokers = count_brokers(kafka)
        reports = describe_topics(kafka, topics)
    except LabelwatchError as error:
        yield CheckResult(False, "log", f"LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: {error}")
        return
    yield CheckResult(
        True, "log", f"Kafka at {kafka.bootstrap_servers}, {pluralize(brokers, 'broker')}, {kafka.security_protocol}"
    )
    for report in reports:
        if report.problems:
            yield from (CheckResult(False, "topic", f"{report.name}: {problem}") for problem in report.problems)
        else:
            trial = " (use one replica only for a trial)" if report.replication == 1 else ""
            replicas = pluralize(report.replication, "replica")
            yield CheckResult(
                True, "topic", f"{report.name}: {pluralize(report.partitions, 'partition')}, {replicas}{trial}"
            )


def _describe_models(datasets: DatasetRegistry) -> str:
    """Which datasets have a model of their own that is there."""
    settings = [datasets.get_settings_state(name).in_force for name in datasets.names]
    own = [
        f"{each.name} by {each.model}"
        for each in settings
        if each.model is not None and datasets.find_missing_model(each.name) is None
    ]
    return f"; judged by a model of their own: {format_names(own)}" if own else ""


def _check_contents(settings: Settings, folder: ModelFolder, topics: Topics) -> Iterator[CheckResult]:
    """Reads settings and state as a worker does when it starts."""
    try:
        with open_existing_log(settings) as log:
            datasets = load_datasets(settings, build_model_pool(settings, folder), log, topics)
            snapshot = read_state(log, topics).snapshot
            unsent_webhooks = describe_unsent_webhooks(settings, log, topics)
        for partition in snapshot.memory_partitions:
            check_memories(snapshot.start_draft(), topics.state, partition)
    except LabelwatchError as error:
        yield CheckResult(False, "state", str(error))
        return
    for name, reason in sorted(datasets.refused_settings.items()):
        yield CheckResult(False, "dataset", f"the settings of {name} can't be used: {reason}")
    for missing in filter(None, map(datasets.find_missing_model, datasets.names)):
        yield CheckResult(False, "dataset", missing)
    yield CheckResult(True, "datasets", f"{len(datasets.names):,} set up{_describe_models(datasets)}")
    for waiting in WaitingDatasets(datasets.get_judge).list_all(snapshot.list_arrivals()):
        yield CheckResult(True, "waiting", explain_waiting(waiting))
    if unsent_webhooks:
        another_may_send = settings.kafka is not None
        yield CheckResult(another_may_send, "webhooks", unsent_webhooks)
    learned = snapshot.count_sentences()
    yield CheckResult(
        True,
        "state",
        f"{pluralize(learned, 'sentence')} learned from, {pluralize(len(snapshot.keys), 'set')} of statistics",
    )
