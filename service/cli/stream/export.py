"""`labelwatch export --decisions`: the corrected data set, from the topics and what reviewers decided.

Each sentence goes back in the format it came in, unless another is named.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import ValidationError

from service.cli.shared.terminal import STDOUT, open_output, say
from service.contracts import Assessment, Decision, LabelledSentence, read_sentence
from service.errors import InvalidInput, SettingsError
from service.formats.plain.writers import SentenceFormat, arrived_as, extension, write_sentences
from service.formats.text.restored_text import Telling
from service.log.codec import header
from service.review.decisions import CLAIM
from service.review.items import counted, verdict_of
from service.runtime.dataset_schemes import Schemes
from service.runtime.open_log import newest, read_datasets, read_state, read_topic, reading, topics_of
from service.settings import read_settings
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.labels import Scheme
    from service.log.protocol import Record, Stream
    from service.log.topics import Topics

Decisions = Annotated[
    bool, typer.Option("--decisions", help="With the labels that reviewers corrected. Without: the labels as given.")
]
Dataset = Annotated[str, typer.Option(metavar="D", help="Of this dataset.")]
Form = Annotated[
    Literal["auto", SentenceFormat],
    typer.Option("--format", help="What is written; auto: the format in which the sentences came."),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE|FOLDER/",
        help="Write it here; - is standard output. In a folder one file is made for each format.",
    ),
]
Reviewer = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this reviewer's corrections, whatever others say.")
]
DecidedOnly = Annotated[bool, typer.Option("--decided-only", help="Only sentences that somebody has decided about.")]


def export(
    *,
    decisions: Decisions = False,
    dataset: Dataset = "default",
    form: Form = "auto",
    output: Output = STDOUT,
    reviewer: Reviewer = None,
    decided_only: DecidedOnly = False,
) -> None:
    """Write a dataset's sentences, each in its newest revision, with reviewers' corrections where they agree.

    Sentences come from the input topic as far back as it reaches, those in review from the review topic too.
    """
    if (reviewer is not None or decided_only) and not decisions:
        raise SettingsError("--reviewer and --decided-only need --decisions")
    settings = read_settings()
    topics = topics_of(settings)
    with reading(settings, topics) as stream:
        found = sentences_of(stream, topics, dataset)
        if not found:
            _check_known(stream, topics, dataset)
        decided = decisions_of(stream, topics, dataset) if decisions else {}
        scheme = Schemes(settings, stream, topics).of(dataset)
    told: Counter[str] = Counter()
    chosen: list[LabelledSentence] = []
    for sentence in found:
        about = [
            one
            for one in decided.get(sentence.id or "", ())
            if one.revision == sentence.revision and (reviewer is None or one.reviewer == reviewer)
        ]
        if decided_only and not any(not one.withdrawn for one in about):
            continue
        outcome, labels = corrected(about, len(sentence.tokens))
        told[outcome] += 1
        chosen.append(sentence if labels is None else sentence.model_copy(update={"labels": labels}))
    write(chosen, form, output, dataset=dataset, scheme=scheme)
    say(f"{plural(told.total(), 'sentence')} of {dataset}{_summary(told) if decisions else ''}")


def write(
    sentences: list[LabelledSentence],
    form: Literal["auto", SentenceFormat],
    output: str,
    *,
    dataset: str,
    scheme: Scheme,
) -> None:
    """To one file; several formats need a folder, in which each has its own."""
    by_format: dict[SentenceFormat, list[LabelledSentence]] = {}
    for sentence in sentences:
        by_format.setdefault(arrived_as(sentence) if form == "auto" else form, []).append(sentence)
    if not by_format:
        by_format = {"jsonl" if form == "auto" else form: []}
    folder = output != STDOUT and (output.endswith("/") or Path(output).is_dir())
    if len(by_format) > 1 and not folder:
        there = ", ".join(f"{len(some):,} as {name}" for name, some in by_format.items())
        raise SettingsError(
            f"the sentences of {dataset} came in several formats ({there}): give --output a folder (corrected/) for one "
            f"file each, or write all in one with --format, say --format {next(iter(by_format))}"
        )
    for name, some in by_format.items():
        telling = Telling(scheme)
        path = _inside(output, f"{dataset}.{name}{extension(name)}") if folder else output
        with open_output(path) as file:
            write_sentences(file, name, some, telling)
        if folder:
            say(f"{path}: {plural(len(some), 'sentence')}")
        for note in _notes(telling):
            say(f"{name}: {note}")


def _inside(folder: str, name: str) -> str:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"can't make {folder}: {error.strerror or error}") from error
    return str(Path(folder) / name)


def _notes(telling: Telling) -> Iterator[str]:
    if telling.joined:
        yield f"{plural(telling.joined, 'sentence')} came without a text: the words are joined by one space"
    yield from telling.notes


def _check_known(stream: Stream, topics: Topics, dataset: str) -> None:
    """An empty file for a misspelt name would look like an answer."""
    learned = {account.dataset for account in read_state(stream, topics).ledger.totals}
    names = {*read_datasets(stream, topics), *learned, *(sentence.dataset for sentence in _received(stream, topics))}
    if dataset not in names:
        known = ", ".join(sorted(names)) or "none yet"
        raise InvalidInput(f"{dataset!r} is not known: the datasets are {known} (option --dataset)", field="dataset")


def _summary(told: Counter[str]) -> str:
    parts = {
        "corrected": "corrected",
        "ok": "found right",
        "uncorrected": "wrong, but nobody gave the right labels",
        "differ": "where reviewers differ: their labels are as given",
    }
    said = [f"{told[outcome]:,} {text}" for outcome, text in parts.items() if told[outcome]]
    return f" ({'; '.join(said)})" if said else " (no decisions)"


def corrected(about: list[Decision], words: int) -> tuple[str, tuple[str, ...] | None]:
    """What became of a sentence, and its labels where they are others now: where all who correct it agree."""
    verdict = verdict_of(about)
    if verdict is None:
        return ("differ" if counted(about) else "open"), None
    if verdict == "ok":
        return "ok", None
    wrong = [one.labels for one in counted(about) if one.verdict == "error"]  # others may repeat the given ones
    labels = {one for one in wrong if one is not None and len(one) == words}
    if len(labels) == 1:
        return "corrected", labels.pop()
    return ("differ" if labels else "uncorrected"), None


def sentences_of(stream: Stream, topics: Topics, dataset: str) -> list[LabelledSentence]:
    """The newest revision of each sentence, in the order in which they first came; deleted ones are left out."""
    found: dict[str, LabelledSentence] = {}
    for sentence in _received(stream, topics):
        if sentence.dataset == dataset and sentence.revision >= _revision(found, sentence):
            found[sentence.id or ""] = sentence
    for sentence in _reviewed(stream, topics, dataset):  # of one revision that came twice, the input holds the newer
        if sentence.revision > _revision(found, sentence):
            found[sentence.id or ""] = sentence
    return [one for one in found.values() if not one.deleted and not _gone_with_task(found, one)]


def _gone_with_task(found: dict[str, LabelledSentence], sentence: LabelledSentence) -> bool:
    """Of a task that is deleted the platform names the task alone."""
    meta = sentence.meta or {}
    task = found.get(f"{meta.get('format')}:task:{meta.get('task', meta.get('record'))}")
    return task is not None and task.deleted and task.revision >= sentence.revision


def _revision(found: dict[str, LabelledSentence], sentence: LabelledSentence) -> int:
    known = found.get(sentence.id or "")
    return -(2**63) - 1 if known is None else known.revision


def _received(stream: Stream, topics: Topics) -> Iterator[LabelledSentence]:
    records = sorted(read_topic(stream, topics.sentences), key=lambda record: (record.partition, record.offset))
    for record in records:
        try:
            sentence = read_sentence(record.value or b"")
        except InvalidInput:
            continue  # a dead letter: it is in no data set
        if sentence.id is None:
            sentence = sentence.model_copy(update={"id": f"{record.topic}-{record.partition}-{record.offset}"})
        yield sentence


def _reviewed(stream: Stream, topics: Topics, dataset: str) -> Iterable[LabelledSentence]:
    """What the input topic has let go of may still be in review; an older revision may stand after a newer one."""
    found: dict[str, LabelledSentence] = {}
    records = sorted(read_topic(stream, topics.review), key=lambda record: (record.partition, record.offset))
    for record in records:
        if record.value is None:
            of, _, identity = (record.key or b"").decode(errors="replace").partition("/")
            if of == dataset:
                found.pop(identity, None)
            continue
        try:
            said = Assessment.model_validate_json(record.value)
        except ValidationError:
            continue
        sentence = LabelledSentence.model_validate(
            {name: getattr(said, name) for name in LabelledSentence.model_fields}
        )
        if sentence.dataset == dataset and sentence.revision >= _revision(found, sentence):
            found[sentence.id or ""] = sentence
    return found.values()


def decisions_of(stream: Stream, topics: Topics, dataset: str) -> dict[str, list[Decision]]:
    """The last decision of each reviewer, by sentence."""
    found: dict[str, list[Decision]] = {}
    for record in newest(stream, topics.decisions).values():
        decision = _decision(record)
        if decision is not None and decision.dataset == dataset:
            found.setdefault(decision.id, []).append(decision)
    return found


def _decision(record: Record) -> Decision | None:
    if header(record.headers, "ce_type") == CLAIM:
        return None
    try:
        return Decision.model_validate_json(record.value or b"")
    except ValidationError:
        return None
