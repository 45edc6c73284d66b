"""`labelwatch check`: settings, model, log, topics and what they hold: each line is ok or says what to change."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import typer

from service.cli.shared.terminal import sanitize
from service.errors import LabelwatchError, SettingsError
from service.inference.classifier import Classifier
from service.log.sqlite.admin import describe_log_file
from service.runtime.dataset_settings import load_datasets
from service.runtime.load_model import load_model_folder
from service.runtime.open_log import build_topics, open_existing_log
from service.runtime.read_state import read_state
from service.settings import ENV_PREFIX, find_unknown_variables, read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.inference.model.folder import ModelFolder
    from service.log.topics import Topics
    from service.settings import Settings
    from service.settings.kafka import KafkaSettings


class CheckResult(NamedTuple):
    ok: bool
    subject: str
    message: str


def check() -> None:
    """Say of settings, model, log and topics whether they are ok, or what to change. Exit code 1 if anything is not."""
    wrong = False
    for line in _run_checks():
        wrong = wrong or not line.ok
        typer.echo(sanitize(f"{'ok   ' if line.ok else 'WRONG'} {line.subject}: {line.message}"))
    if wrong:
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
        folder = load_model_folder(settings)
        yield CheckResult(True, "model", _check_model(folder, settings))
    except LabelwatchError as error:
        yield CheckResult(False, "model", str(error))
    topics = build_topics(settings)
    log = list(
        _check_kafka(settings.kafka, topics)
        if settings.kafka is not None
        else _check_embedded_log(settings.log.path, topics)
    )
    yield from log
    if folder is not None and all(line.ok for line in log) and (settings.kafka or settings.log.path.exists()):
        yield from _check_contents(settings, folder, topics)


def _read_usable_settings() -> tuple[Settings | None, list[str]]:
    """The settings without the variables that can't be used, and what is wrong with those: the rest is worth a look."""
    before = dict(os.environ)
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
                # Where one is missing, those that need it are of no use.
                names = names or [name for name in os.environ if name.upper().startswith(group)]
                if not variable.startswith(ENV_PREFIX) or not names:
                    return None, problems
                for name in names:
                    del os.environ[name]
    finally:
        os.environ.update(before)


def _check_model(folder: ModelFolder, settings: Settings) -> str:
    classifier = Classifier(folder, threads=settings.model.threads)
    single = "" if classifier.batching == "planned" else ", each sentence alone since batch mates change its answers"
    start = "start from its held-out words" if folder.held_out else f"start after {settings.worker.min_words} words"
    return f"{folder.name} ({folder.fingerprint[:12]}), {len(folder.labels)} classes, thresholds {start}{single}"


def _check_embedded_log(path: Path, topics: Topics) -> Iterator[CheckResult]:
    """The embedded log, looked at without making it."""
    if not path.exists():
        parent = next(parent for parent in path.resolve().parents if parent.exists())
        try:
            with tempfile.TemporaryFile(
                dir=parent
            ):  # what the permissions say is not all: it may be no place for files
                pass
        except OSError as error:
            why = error.strerror or error
            yield CheckResult(
                False, "log", f"LABELWATCH_LOG_PATH: {path} can't be made, {parent} can't be written to: {why}"
            )
            return
        yield CheckResult(
            True, "log", f"embedded, {path} will be made; set LABELWATCH_KAFKA_BOOTSTRAP_SERVERS for Kafka"
        )
        return
    if not os.access(path, os.R_OK | os.W_OK):
        yield CheckResult(False, "log", f"LABELWATCH_LOG_PATH: {path} can't be read and written")
        return
    try:
        found = describe_log_file(path, topics)
    except LabelwatchError as error:
        yield CheckResult(False, "log", f"LABELWATCH_LOG_PATH: {error}")
        return
    size = pluralize(sum(topic.records for topic in found), "record")
    yield CheckResult(True, "log", f"embedded, {path}, {size} in {topics.prefix}*")


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
    for one in reports:
        if one.problems:
            yield from (CheckResult(False, "topic", f"{one.name}: {problem}") for problem in one.problems)
        else:
            trial = " (a single copy is for trying out)" if one.replication == 1 else ""
            copies = pluralize(one.replication, "copy", "copies")
            yield CheckResult(True, "topic", f"{one.name}: {pluralize(one.partitions, 'partition')}, {copies}{trial}")


def _check_contents(settings: Settings, folder: ModelFolder, topics: Topics) -> Iterator[CheckResult]:
    """What the log holds, as a worker would read it before it starts."""
    try:
        with open_existing_log(settings) as stream:
            datasets = load_datasets(settings, folder, stream, topics)
            totals = read_state(stream, topics).snapshot.totals
    except LabelwatchError as error:
        yield CheckResult(False, "state", str(error))
        return
    for name, why in sorted(datasets.refused_settings.items()):
        yield CheckResult(False, "dataset", f"the settings of {name} can't be used: {why}")
    yield CheckResult(True, "datasets", f"{len(datasets.names):,} set up")
    learned = sum(stats.histogram.total for stats in totals.values())
    yield CheckResult(
        True, "state", f"{pluralize(learned, 'sentence')} learned from, {pluralize(len(totals), 'set')} of statistics"
    )
