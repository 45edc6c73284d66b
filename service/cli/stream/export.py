"""`labelwatch export --decisions`: the corrected data set, from the topics and what reviewers decided.

Each sentence goes back in the format it came in, unless another is named.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from service.cli.shared.terminal import STDOUT, open_output, print_stderr
from service.contracts import Assessment, Decision, LabelledSentence, read_sentence
from service.errors import InvalidInput, SettingsError
from service.formats import FORMATS, choose_format, write_sentences
from service.formats.text.restored_text import WriteContext
from service.log.codec import get_header
from service.log.read import read_compacted_topic, read_topic
from service.review.decisions import CLAIM_EVENT_TYPE
from service.review.items import compute_majority_verdict, select_sure_decisions
from service.runtime.dataset_schemes import DatasetSchemes
from service.runtime.dataset_settings import read_dataset_settings
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.stream.state.reader import read_state
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.labels import Scheme
    from service.log.protocol import Log, Record
    from service.log.topics import Topics

AUTO_FORMAT = "auto"
EXPORT_FORMATS = (AUTO_FORMAT, *FORMATS)


def _check_format(name: str) -> str:
    if name not in EXPORT_FORMATS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(EXPORT_FORMATS)}.")
    return name


DecisionsOption = Annotated[
    bool, typer.Option("--decisions", help="With the labels that reviewers corrected. Without: the labels as given.")
]
DatasetOption = Annotated[str, typer.Option(metavar="D", help="Of this dataset.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="|".join(EXPORT_FORMATS),
        callback=_check_format,
        help="What is written; auto: the format in which the sentences came.",
    ),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE|FOLDER/",
        help="Write it here; - is standard output. In a folder one file is made for each format.",
    ),
]
ReviewerOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this reviewer's corrections, whatever others say.")
]
DecidedOnlyOption = Annotated[
    bool, typer.Option("--decided-only", help="Only sentences that somebody has decided about.")
]


def export(
    *,
    decisions: DecisionsOption = False,
    dataset: DatasetOption = "default",
    form: FormatOption = AUTO_FORMAT,
    output: OutputOption = STDOUT,
    reviewer: ReviewerOption = None,
    decided_only: DecidedOnlyOption = False,
) -> None:
    """Write a dataset's sentences, each in its newest revision, with reviewers' corrections where they agree.

    Sentences come from the input topic as far back as it reaches, those in review from the review topic too.
    """
    if (reviewer is not None or decided_only) and not decisions:
        raise SettingsError("--reviewer and --decided-only need --decisions")
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as stream:
        found = read_newest_sentences(stream, topics, dataset)
        if not found:
            _check_dataset_exists(stream, topics, dataset)
        decided = read_decisions(stream, topics, dataset) if decisions else {}
        scheme = DatasetSchemes(settings, stream, topics).get(dataset)
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
        outcome, labels = resolve_decisions(about, len(sentence.tokens))
        told[outcome] += 1
        chosen.append(sentence if labels is None else sentence.model_copy(update={"labels": labels}))
    write_export(chosen, form, output, dataset=dataset, scheme=scheme)
    print_stderr(f"{pluralize(told.total(), 'sentence')} of {dataset}{_summarize_outcomes(told) if decisions else ''}")


def write_export(
    sentences: list[LabelledSentence],
    form: str,
    output: str,
    *,
    dataset: str,
    scheme: Scheme,
) -> None:
    """To one file; several formats need a folder, in which each has its own."""
    by_format: dict[str, list[LabelledSentence]] = {}
    for sentence in sentences:
        by_format.setdefault(choose_format(sentence) if form == AUTO_FORMAT else form, []).append(sentence)
    if not by_format:
        by_format = {"jsonl" if form == AUTO_FORMAT else form: []}
    folder = output != STDOUT and (output.endswith("/") or Path(output).is_dir())
    if len(by_format) > 1 and not folder:
        there = ", ".join(f"{len(some):,} as {name}" for name, some in by_format.items())
        raise SettingsError(
            f"the sentences of {dataset} came in several formats ({there}): give --output a folder (corrected/) for one "
            f"file each, or write all in one with --format, say --format {next(iter(by_format))}"
        )
    for name, some in by_format.items():
        telling = WriteContext(scheme)
        path = _prepare_output_path(output, f"{dataset}.{name}{FORMATS[name].write_extension}") if folder else output
        with open_output(path) as file:
            write_sentences(file, name, some, telling)
        if folder:
            print_stderr(f"{path}: {pluralize(len(some), 'sentence')}")
        for note in _list_notes(telling):
            print_stderr(f"{name}: {note}")


def _prepare_output_path(folder: str, name: str) -> str:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"can't make {folder}: {error.strerror or error}") from error
    return str(Path(folder) / name)


def _list_notes(telling: WriteContext) -> Iterator[str]:
    if telling.n_joined:
        yield f"{pluralize(telling.n_joined, 'sentence')} came without a text: the words are joined by one space"
    yield from telling.notes


def _check_dataset_exists(stream: Log, topics: Topics, dataset: str) -> None:
    """An empty file for a misspelt name would look like an answer."""
    learned = read_state(stream, topics).snapshot.datasets
    names = {
        *read_dataset_settings(stream, topics),
        *learned,
        *(sentence.dataset for sentence in _read_received_sentences(stream, topics)),
    }
    if dataset not in names:
        known = ", ".join(sorted(names)) or "none yet"
        raise InvalidInput(f"{dataset!r} is not known: the datasets are {known} (option --dataset)", field="dataset")


def _summarize_outcomes(outcomes: Counter[str]) -> str:
    parts = {
        "corrected": "corrected",
        "ok": "found right",
        "uncorrected": "wrong, but nobody gave the right labels",
        "differ": "where reviewers differ: their labels are as given",
    }
    said = [f"{outcomes[outcome]:,} {text}" for outcome, text in parts.items() if outcomes[outcome]]
    return f" ({'; '.join(said)})" if said else " (no decisions)"


def resolve_decisions(decisions: list[Decision], word_count: int) -> tuple[str, tuple[str, ...] | None]:
    """What became of a sentence, and its labels where they are others now: where all who correct it agree."""
    verdict = compute_majority_verdict(decisions)
    if verdict is None:
        return ("differ" if select_sure_decisions(decisions) else "open"), None
    if verdict == "ok":
        return "ok", None
    wrong = [
        one.labels for one in select_sure_decisions(decisions) if one.verdict == "error"
    ]  # others may repeat the given ones
    labels = {one for one in wrong if one is not None and len(one) == word_count}
    if len(labels) == 1:
        return "corrected", labels.pop()
    return ("differ" if labels else "uncorrected"), None


def read_newest_sentences(stream: Log, topics: Topics, dataset: str) -> list[LabelledSentence]:
    """The newest revision of each sentence, in the order in which they first came; deleted ones are left out."""
    found: dict[str, LabelledSentence] = {}
    for sentence in _read_received_sentences(stream, topics):
        if sentence.dataset == dataset and sentence.revision >= _get_known_revision(found, sentence):
            found[sentence.id or ""] = sentence
    for sentence in _read_reviewed_sentences(
        stream, topics, dataset
    ):  # of one revision that came twice, the input holds the newer
        if sentence.revision > _get_known_revision(found, sentence):
            found[sentence.id or ""] = sentence
    return [one for one in found.values() if not one.deleted and not _is_task_deleted(found, one)]


def _is_task_deleted(found: dict[str, LabelledSentence], sentence: LabelledSentence) -> bool:
    """Of a task that is deleted the platform names the task alone."""
    meta = sentence.meta or {}
    task = found.get(f"{meta.get('format')}:task:{meta.get('task', meta.get('record'))}")
    return task is not None and task.deleted and task.revision >= sentence.revision


def _get_known_revision(found: dict[str, LabelledSentence], sentence: LabelledSentence) -> int:
    known = found.get(sentence.id or "")
    return -(2**63) - 1 if known is None else known.revision


def _read_received_sentences(stream: Log, topics: Topics) -> Iterator[LabelledSentence]:
    records = sorted(read_topic(stream, topics.sentences), key=lambda record: (record.partition, record.offset))
    for record in records:
        try:
            sentence = read_sentence(record.value or b"")
        except InvalidInput:
            continue  # a dead letter: it is in no data set
        if sentence.id is None:
            sentence = sentence.model_copy(update={"id": f"{record.topic}-{record.partition}-{record.offset}"})
        yield sentence


def _read_reviewed_sentences(stream: Log, topics: Topics, dataset: str) -> Iterable[LabelledSentence]:
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
        if sentence.dataset == dataset and sentence.revision >= _get_known_revision(found, sentence):
            found[sentence.id or ""] = sentence
    return found.values()


def read_decisions(stream: Log, topics: Topics, dataset: str) -> dict[str, list[Decision]]:
    """The last decision of each reviewer, by sentence."""
    found: dict[str, list[Decision]] = {}
    for record in read_compacted_topic(stream, topics.decisions).values():
        decision = _parse_decision(record)
        if decision is not None and decision.dataset == dataset:
            found.setdefault(decision.id, []).append(decision)
    return found


def _parse_decision(record: Record) -> Decision | None:
    if get_header(record.headers, "ce_type") == CLAIM_EVENT_TYPE:
        return None
    try:
        return Decision.model_validate_json(record.value or b"")
    except ValidationError:
        return None
