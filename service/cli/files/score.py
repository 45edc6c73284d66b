"""`labelwatch score`: audits files of labelled sentences and lists them, worst first.

Exit codes: 0 done, 1 the input or the model can't be used (one line on stderr says why), 2 wrong usage,
3 something is flagged and `--fail-on-flagged` is given.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from tqdm import tqdm

from service.audit.audit import audit
from service.audit.report.page import ReportMetadata, render_page
from service.audit.summary import AuditSummary
from service.audit.temp_files import RankedLineFile
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import FileReadOptions, add_file_options
from service.cli.shared.model_options import ModelOption, PrecisionOption
from service.cli.shared.options import ProgressOption
from service.cli.shared.rejects import RejectHandler
from service.cli.shared.terminal import (
    STDOUT,
    check_distinct_paths,
    check_writable,
    open_output,
    print_stderr,
    render_sentence,
)
from service.contracts import Assessment, DatasetSettings
from service.errors import InvalidInput
from service.formats import FileRecord, ReadOptions, read_records
from service.formats.plain.assessments import OutputFormat, build_assessment_writer
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.labels import Scheme, detect_scheme
from service.runtime.sentence_files import STDIN, are_rereadable, derive_id_stem
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# A pipe can't be read twice: its scheme is detected from this many sentences.
SCHEME_SAMPLE_SENTENCES = 1_000


@add_file_options
def score(
    *,
    input_files: FileReadOptions,
    on_error: opt.OnErrorOption = "stop",
    model: ModelOption = None,
    precision: PrecisionOption = "fast",
    scheme: opt.SchemeOption = None,
    mapping: opt.MapOption = None,
    unmapped: opt.UnmappedOption = "reject",
    method: opt.MethodOption = "worst-token",
    token_score: opt.TokenScoreOption = "self-confidence",
    stream: opt.StreamOption = False,
    output: opt.OutputOption = None,
    output_format: opt.OutputFormatOption = None,
    report: opt.ReportOption = None,
    flagged_only: opt.FlaggedOnlyOption = False,
    top: opt.TopOption = None,
    fail_on_flagged: opt.FailOnFlaggedOption = False,
    threads: opt.ThreadsOption = None,
    progress: ProgressOption = None,
) -> None:
    """Audit files of labelled sentences: find doubtful labels, and list the sentences to look at first.

    Reads CoNLL columns, JSON Lines, CSV, TSV and exports of annotation platforms, gzipped or not. Exit codes: 0 done, 1
    the input or the model can't be used, 2 wrong usage, 3 with --fail-on-flagged if anything is flagged.
    """
    files = input_files.files
    if report == STDOUT and output == STDOUT:
        raise typer.BadParameter("standard output is taken by --output: give a file", param_hint="--report")
    settings = DatasetSettings(
        label_map=_parse_label_map(mapping or ()), unmapped=unmapped, method=method, token_score=token_score
    )
    options = input_files.to_read_options(scheme=scheme)
    rejects = RejectHandler(on_error, output)
    check_distinct_paths(
        files, {"--output": output, "--report": report, "the list of skipped sentences": str(rejects.path or STDOUT)}
    )
    for path in (output, report):
        if path not in (None, STDOUT):
            check_writable(str(path))
    with ExitStack() as stack:
        stack.enter_context(rejects)
        folder = ModelFolder.load(model or find_default_model(), precision=precision)
        records, settings, expected = _prepare_records(
            files, input_files.format, options, settings, scheme=scheme, rejects=rejects
        )
        judge = Judge(folder, settings)
        classifier = Classifier(folder, threads=threads or _count_cores())
        started = time.monotonic()
        summary, ranking = AuditSummary(judge.classes), stack.enter_context(RankedLineFile())
        bar = stack.enter_context(
            tqdm(
                total=expected,
                unit=" sentences",
                file=sys.stderr,
                disable=not (sys.stderr.isatty() if progress is None else progress),
            )
        )

        def count_deleted(_: FileRecord) -> None:
            summary.deleted += 1

        audited = audit(
            records,
            classifier,
            judge,
            stream=stream,
            on_reject=rejects,
            on_progress=lambda n: bar.update(n - bar.n),
            on_deleted=count_deleted,
        )
        for record, assessment in audited:
            summary.add(assessment, record)
            ranking.add(assessment.model_dump_json(), priority=assessment.priority, flagged=bool(assessment.flags))
        bar.close()
        if not summary.sentences:
            raise InvalidInput(_describe_empty_input(files, rejects, summary.deleted))
        seconds = time.monotonic() - started
        _write_results(ranking, output, output_format, top=top, flagged_only=flagged_only)
        if report is not None:
            metadata = ReportMetadata(
                sources=files,
                model=folder.name,
                fingerprint=folder.fingerprint,
                method=method,
                token_score=token_score,
                scheme=judge.scheme,
                stream=stream,
                rejected=rejects.count,
                created_at=datetime.now(UTC),
            )
            with open_output(report) as file:
                file.write(render_page(summary, metadata))
        if classifier.batching == "single":
            print_stderr("each sentence was run alone, which is slower: this model gives other answers in batches")
        _print_summary(summary, rejects, seconds, output=output, report=report)
    if fail_on_flagged and summary.flagged_sentences:
        raise typer.Exit(opt.EXIT_CODE_FLAGGED)


def _parse_label_map(pairs: Iterable[str]) -> dict[str, str]:
    label_map: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is not OLD=NEW, such as PERSON=PER", param_hint="--map")
        if label_map.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old} is mapped to {label_map[old]} and to {new}", param_hint="--map")
    return label_map


def _prepare_records(
    files: list[str],
    file_format: str | None,
    options: ReadOptions,
    settings: DatasetSettings,
    *,
    scheme: str | None,
    rejects: RejectHandler,
) -> tuple[Iterable[FileRecord], DatasetSettings, int | None]:
    """The records to audit, the settings with the scheme of the labels, and the number of sentences if it is known.

    Without `scheme` the files are read once more to detect it.
    """
    records = _read_files(files, file_format, options)
    if scheme is not None:
        return records, settings.model_copy(update={"scheme": Scheme(scheme).value}), None
    rereadable = are_rereadable(files)
    sample: Iterable[FileRecord] = (
        _read_files(files, file_format, options)
        if rereadable
        else list(itertools.islice(records, SCHEME_SAMPLE_SENTENCES))
    )
    sentences = 0
    read_error: InvalidInput | None = None  # no option helps against a sentence that can't be read

    def iter_labels() -> Iterator[tuple[str, ...]]:
        nonlocal sentences, read_error
        for record in sample:
            if record.error is not None and rejects.stops_on_error:
                read_error = record.error
                raise record.error
            if record.sentence is not None and not record.sentence.deleted:
                sentences += 1
                yield record.sentence.labels

    try:
        detected_scheme = detect_scheme(iter_labels(), settings.label_map)
    except InvalidInput as error:
        if error is read_error or error.field != "labels":
            raise
        remedy = "(options --scheme and --map, such as --map PERSON=PER)"
        raise InvalidInput(f"can't detect the scheme of the labels: {error} {remedy}") from error
    detected = settings.model_copy(update={"scheme": detected_scheme.value})
    if rereadable:
        return records, detected, sentences
    return itertools.chain(sample, records), detected, None


def _read_files(files: list[str], file_format: str | None, options: ReadOptions) -> Iterator[FileRecord]:
    for file in files:
        stem = "stdin" if file == STDIN else derive_id_stem(file, files)
        yield from read_records(file, format=file_format, options=replace(options, id_prefix=f"{stem}:"))


def _count_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have fewer than the machine
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _write_results(
    ranking: RankedLineFile,
    output: str | None,
    output_format: OutputFormat | None,
    *,
    top: int | None,
    flagged_only: bool,
) -> None:
    lines = ranking.iterate_worst_first(
        limit=top if output is not None else top or opt.DEFAULT_TOP, flagged_only=flagged_only
    )
    if output is None:
        for rank, line in enumerate(lines, 1):
            typer.echo(render_sentence(Assessment.model_validate_json(line), rank))
        return
    with open_output(output) as file:
        write = build_assessment_writer(file, output_format or ("csv" if output.lower().endswith(".csv") else "jsonl"))
        for rank, line in enumerate(lines, 1):
            write(line, rank)


def _describe_empty_input(files: list[str], rejects: RejectHandler, deleted: int) -> str:
    if rejects.count:
        return f"none of the {pluralize(rejects.count, 'sentence')} could be judged; the first: {rejects.first_error}"
    if deleted:
        return f"{', '.join(files)}: only {pluralize(deleted, 'sentence')} marked deleted"
    return f"no sentence in {', '.join(files)}"


def _print_summary(
    summary: AuditSummary, rejects: RejectHandler, seconds: float, *, output: str | None, report: str | None
) -> None:
    speed = f"{summary.sentences / seconds:,.0f} sentences/s" if seconds > 0 else "at once"
    share = summary.flagged_sentences / summary.sentences
    print_stderr(
        f"{pluralize(summary.sentences, 'sentence')}, {pluralize(summary.words, 'word')} in {seconds:.1f} s ({speed})"
    )
    print_stderr(
        f"{pluralize(summary.flagged_sentences, 'sentence')} flagged ({share:.1%}) with "
        f"{pluralize(summary.flagged_words, 'doubtful label')}"
    )
    for reason, number in summary.unscored.most_common():
        print_stderr(f"{pluralize(number, 'word')} not scored: {reason}")
    if summary.deleted:
        print_stderr(f"{pluralize(summary.deleted, 'sentence')} left out: marked deleted")
    if rejects.count:
        print_stderr(
            f"{pluralize(rejects.count, 'sentence')} skipped{f', listed in {rejects.path}' if rejects.path else ''}"
        )
    if output not in (None, STDOUT):
        print_stderr(f"results: {output}")
    if report not in (None, STDOUT):
        print_stderr(f"report: {report}")
