"""`labelwatch check`: settings, model, log, topics and what they hold: each line is ok or says what to change."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import typer

from service.cli.shared.terminal import safe
from service.errors import LabelwatchError, SettingsError
from service.inference.classifier import Classifier
from service.log.sqlite.admin import describe
from service.runtime.open_log import known_datasets, model_folder, read_state, reading, topics_of
from service.settings import PREFIX, read_settings, unknown_variables
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.inference.model.folder import ModelFolder
    from service.log.kafka.settings import KafkaSettings
    from service.log.topics import Topics
    from service.settings import Settings


class Line(NamedTuple):
    ok: bool
    what: str
    told: str


def check() -> None:
    """Say of settings, model, log and topics whether they are ok, or what to change. Exit code 1 if anything is not."""
    wrong = False
    for line in _lines():
        wrong = wrong or not line.ok
        typer.echo(safe(f"{'ok   ' if line.ok else 'WRONG'} {line.what}: {line.told}"))
    if wrong:
        raise typer.Exit(1)


def _lines() -> Iterator[Line]:
    for variable in unknown_variables(os.environ):
        yield Line(False, "settings", f"{variable} is not a setting: correct its name or remove it")
    settings, problems = _usable_settings()
    yield from (Line(False, "settings", problem) for problem in problems)
    if settings is None:
        return
    yield Line(True, "settings", f"topics {topics_of(settings).prefix}*, group {settings.worker.group}")
    folder: ModelFolder | None = None
    try:
        folder = model_folder(settings)
        yield Line(True, "model", _model(folder, settings))
    except LabelwatchError as error:
        yield Line(False, "model", str(error))
    topics = topics_of(settings)
    log = list(_kafka(settings.kafka, topics) if settings.kafka is not None else _file(settings.log.path, topics))
    yield from log
    if folder is not None and all(line.ok for line in log) and (settings.kafka or settings.log.path.exists()):
        yield from _content(settings, folder, topics)


def _usable_settings() -> tuple[Settings | None, list[str]]:
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
                if not variable.startswith(PREFIX) or not names:
                    return None, problems
                for name in names:
                    del os.environ[name]
    finally:
        os.environ.update(before)


def _model(folder: ModelFolder, settings: Settings) -> str:
    classifier = Classifier(folder, threads=settings.model.threads)
    single = "" if classifier.batching == "planned" else ", each sentence alone since batch mates change its answers"
    start = "start from its held-out words" if folder.held_out else f"start after {settings.worker.min_words} words"
    return f"{folder.name} ({folder.fingerprint[:12]}), {len(folder.labels)} classes, thresholds {start}{single}"


def _file(path: Path, topics: Topics) -> Iterator[Line]:
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
            yield Line(False, "log", f"LABELWATCH_LOG_PATH: {path} can't be made, {parent} can't be written to: {why}")
            return
        yield Line(True, "log", f"embedded, {path} will be made; set LABELWATCH_KAFKA_BOOTSTRAP_SERVERS for Kafka")
        return
    if not os.access(path, os.R_OK | os.W_OK):
        yield Line(False, "log", f"LABELWATCH_LOG_PATH: {path} can't be read and written")
        return
    try:
        found = describe(path, topics)
    except LabelwatchError as error:
        yield Line(False, "log", f"LABELWATCH_LOG_PATH: {error}")
        return
    size = plural(sum(topic.records for topic in found), "record")
    yield Line(True, "log", f"embedded, {path}, {size} in {topics.prefix}*")


def _kafka(kafka: KafkaSettings, topics: Topics) -> Iterator[Line]:
    from service.log.kafka.admin import count_brokers, describe_topics

    try:
        brokers = count_brokers(kafka)
        reports = describe_topics(kafka, topics)
    except LabelwatchError as error:
        yield Line(False, "log", f"LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: {error}")
        return
    yield Line(
        True, "log", f"Kafka at {kafka.bootstrap_servers}, {plural(brokers, 'broker')}, {kafka.security_protocol}"
    )
    for one in reports:
        if one.problems:
            yield from (Line(False, "topic", f"{one.name}: {problem}") for problem in one.problems)
        else:
            trial = " (a single copy is for trying out)" if one.replication == 1 else ""
            copies = plural(one.replication, "copy", "copies")
            yield Line(True, "topic", f"{one.name}: {plural(one.partitions, 'partition')}, {copies}{trial}")


def _content(settings: Settings, folder: ModelFolder, topics: Topics) -> Iterator[Line]:
    """What the log holds, as a worker would read it before it starts."""
    try:
        with reading(settings, topics) as stream:
            datasets = known_datasets(settings, folder, stream, topics)
            totals = read_state(stream, topics).ledger.totals
    except LabelwatchError as error:
        yield Line(False, "state", str(error))
        return
    for name, why in sorted(datasets.refused.items()):
        yield Line(False, "dataset", f"the settings of {name} can't be used: {why}")
    yield Line(True, "datasets", f"{len(datasets.names):,} set up")
    learned = sum(stats.histogram.total for stats in totals.values())
    yield Line(True, "state", f"{plural(learned, 'sentence')} learned from, {plural(len(totals), 'set')} of statistics")
