"""`labelwatch score`: audits files of labelled sentences and lists them, worst first.

Exit codes: 0 done, 1 the input or the model can't be used (one sentence on stderr says why), 2 wrong usage,
3 something was flagged and `--fail-on-flagged` asked to say so.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from tqdm import tqdm

from service.audit.audit import audit
from service.audit.report.page import ReportMetadata, render_page
from service.audit.summary import AuditSummary
from service.audit.temp_files import RankedLineFile
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import FileReadOptions, add_file_options
from service.cli.shared.rejects import RejectHandler
from service.cli.shared.terminal import (
    STDOUT,
    check_distinct_paths,
    check_writable,
    derive_id_stem,
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
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# A pipe can't be read twice: its scheme is told by this many sentences.
SCHEME_SAMPLE_SENTENCES = 1_000


@add_file_options
def score(
    *,
    reading: FileReadOptions,
    on_error: opt.OnErrorOption = "stop",
    model: opt.ModelOption = None,
    precision: opt.PrecisionOption = "fast",
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
    progress: opt.ProgressOption = None,
) -> None:
    """Audit files of labelled sentences: which labels are doubtful, and which sentences to look at first.

    Reads CoNLL columns, JSON Lines, CSV, TSV and exports of annotation platforms, gzipped or not. Exit codes: 0 done, 1
    the input or the model can't be used, 2 wrong usage, 3 with --fail-on-flagged if anything was flagged.
    """
    files = reading.files
    if report == STDOUT and output == STDOUT:
        raise typer.BadParameter("the output is on standard output already", param_hint="--report")
    settings = DatasetSettings(
        label_map=_parse_label_map(mapping or ()), unmapped=unmapped, method=method, token_score=token_score
    )
    options = reading.to_read_options(scheme=scheme)
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
            files, reading.format, options, settings, scheme=scheme, rejects=rejects
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

        def deleted(_: FileRecord) -> None:
            summary.deleted += 1

        judged = audit(
            records,
            classifier,
            judge,
            stream=stream,
            on_reject=rejects,
            on_progress=lambda n: bar.update(n - bar.n),
            on_deleted=deleted,
        )
        for seen, assessment in judged:
            summary.add(assessment, seen)
            ranking.add(assessment.model_dump_json(), priority=assessment.priority, flagged=bool(assessment.flags))
        bar.close()
        if not summary.sentences:
            raise InvalidInput(_describe_empty_input(files, rejects, summary.deleted))
        seconds = time.monotonic() - started
        _write_results(ranking, output, output_format, top=top, flagged_only=flagged_only)
        if report is not None:
            about = ReportMetadata(
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
                file.write(render_page(summary, about))
        if classifier.batching == "single":
            print_stderr("each sentence was run alone, which is slower: in batches this model gives other answers")
        _print_summary(summary, rejects, seconds, output=output, report=report)
    if fail_on_flagged and summary.flagged_sentences:
        raise typer.Exit(opt.EXIT_CODE_FLAGGED)


def _parse_label_map(pairs: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is not OLD=NEW, such as PERSON=PER", param_hint="--map")
        if found.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old} is mapped to {found[old]} and to {new}", param_hint="--map")
    return found


def _prepare_records(
    files: list[str],
    form: str | None,
    options: ReadOptions,
    settings: DatasetSettings,
    *,
    scheme: str | None,
    rejects: RejectHandler,
) -> tuple[Iterable[FileRecord], DatasetSettings, int | None]:
    """The records to audit, the settings with the labels' scheme, and how many sentences there are if that is known.

    Where nobody names the scheme, files are read once more for it: a few per cent of the time that judging takes.
    """
    records = _read_files(files, form, options)
    if scheme is not None:
        return records, settings.model_copy(update={"scheme": Scheme(scheme).value}), None
    again = all(name != STDOUT and Path(name).is_file() for name in files)
    sample: Iterable[FileRecord] = (
        _read_files(files, form, options) if again else list(itertools.islice(records, SCHEME_SAMPLE_SENTENCES))
    )
    sentences = 0
    broken: InvalidInput | None = None  # a sentence that can't be read at all: no option would help

    def labels() -> Iterator[tuple[str, ...]]:
        nonlocal sentences, broken
        for record in sample:
            if record.error is not None and rejects.stops_on_error:
                broken = record.error
                raise record.error
            if record.sentence is not None and not record.sentence.deleted:
                sentences += 1
                yield record.sentence.labels

    try:
        told = detect_scheme(labels(), settings.label_map)
    except InvalidInput as error:
        if error is broken or error.field != "labels":
            raise
        help_by = "(options --scheme and --map, such as --map PERSON=PER)"
        raise InvalidInput(f"the labels' scheme can't be told: {error} {help_by}") from error
    found = settings.model_copy(update={"scheme": told.value})
    if again:
        return records, found, sentences
    return itertools.chain(sample, records), found, None


def _read_files(files: list[str], form: str | None, options: ReadOptions) -> Iterator[FileRecord]:
    for name in files:
        called = "stdin" if name == STDOUT else derive_id_stem(name, files)
        chosen = replace(options, id_prefix=f"{called}:")
        yield from read_records(name, format=form, options=chosen)


def _count_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # in a container fewer than the machine has
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _write_results(
    ranking: RankedLineFile, output: str | None, form: OutputFormat | None, *, top: int | None, flagged_only: bool
) -> None:
    lines = ranking.iterate_worst_first(
        limit=top if output is not None else top or opt.DEFAULT_TOP, flagged_only=flagged_only
    )
    if output is None:
        for rank, line in enumerate(lines, 1):
            typer.echo(render_sentence(Assessment.model_validate_json(line), rank))
        return
    with open_output(output) as stream:
        write = build_assessment_writer(stream, form or ("csv" if output.lower().endswith(".csv") else "jsonl"))
        for rank, line in enumerate(lines, 1):
            write(line, rank)


def _describe_empty_input(files: list[str], rejects: RejectHandler, deleted: int) -> str:
    if rejects.count:
        return f"none of the {pluralize(rejects.count, 'sentence')} could be judged; the first: {rejects.first_error}"
    if deleted:
        return f"{', '.join(files)}: nothing but {pluralize(deleted, 'sentence')} marked deleted"
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
        print_stderr(f"{pluralize(summary.deleted, 'sentence')} marked deleted and left out")
    if rejects.count:
        print_stderr(
            f"{pluralize(rejects.count, 'sentence')} skipped{f', listed in {rejects.path}' if rejects.path else ''}"
        )
    if output not in (None, STDOUT):
        print_stderr(f"results: {output}")
    if report not in (None, STDOUT):
        print_stderr(f"report: {report}")
