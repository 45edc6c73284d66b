"""`labelwatch score`: audits files of labelled sentences and lists them, worst first.

Exit codes: 0 done, 1 the input or the model can't be used (one line on stderr says why), 2 wrong usage,
3 something is flagged and `--fail-on-flagged` is given.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime

import typer
from tqdm import tqdm

from service.audit.audit import audit
from service.audit.report.page import ReportMetadata, render_page
from service.audit.summary import AuditSummary
from service.audit.temp_files import RankedLineFile
from service.cli.files.audit_input import AuditInput, prepare_audit_input
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import FileReadOptions, add_file_options
from service.cli.shared.label_maps import parse_label_map
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
from service.formats import FileRecord
from service.formats.plain.assessments import OutputFormat, build_assessment_writer
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.runtime.sentence_files import FileSource
from service.text import pluralize


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
    label_map = parse_label_map(mapping or (), example="PERSON=PER")
    rejects = RejectHandler(on_error, output)
    _check_paths(files, output=output, report=report, rejects=rejects)
    with ExitStack() as stack:
        stack.enter_context(rejects)
        folder = ModelFolder.load(model or find_default_model(), precision=precision)
        source = FileSource(
            files, input_files.to_read_options(scheme=scheme), format=input_files.format, stdin_stem="stdin"
        )
        audit_input = prepare_audit_input(source, label_map, scheme=scheme, stop_on_error=rejects.stops_on_error)
        settings = DatasetSettings(
            label_map=label_map,
            unmapped=unmapped,
            method=method,
            token_score=token_score,
            scheme=audit_input.scheme.value,
        )
        judge = Judge(folder, settings)
        classifier = Classifier(folder, threads=threads or _count_cores())
        summary, ranking = AuditSummary(judge.classes), stack.enter_context(RankedLineFile())
        hide_progress = not (sys.stderr.isatty() if progress is None else progress)
        started = time.monotonic()
        _run_audit(
            audit_input,
            classifier,
            judge,
            stream=stream,
            rejects=rejects,
            summary=summary,
            ranking=ranking,
            hide_progress=hide_progress,
        )
        seconds = time.monotonic() - started
        if not summary.sentences:
            raise InvalidInput(_describe_empty_input(files, rejects, summary.deleted))
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


def _check_paths(files: list[str], *, output: str | None, report: str | None, rejects: RejectHandler) -> None:
    """Fails before the audit if its results could not be written after it."""
    outputs = {"--output": output, "--report": report, "the list of skipped sentences": str(rejects.path or STDOUT)}
    check_distinct_paths(files, outputs)
    for path in (output, report):
        if path is not None and path != STDOUT:
            check_writable(path)


def _run_audit(
    audit_input: AuditInput,
    classifier: Classifier,
    judge: Judge,
    *,
    stream: bool,
    rejects: RejectHandler,
    summary: AuditSummary,
    ranking: RankedLineFile,
    hide_progress: bool,
) -> None:
    """Adds every assessment to the summary and the ranking."""

    def count_deleted(_: FileRecord) -> None:
        summary.deleted += 1

    with tqdm(total=audit_input.sentences, unit=" sentences", file=sys.stderr, disable=hide_progress) as bar:
        audited = audit(
            audit_input.records,
            classifier,
            judge,
            stream=stream,
            on_reject=rejects,
            on_progress=lambda count: bar.update(count - bar.n),
            on_deleted=count_deleted,
        )
        for record, assessment in audited:
            summary.add(assessment, record)
            ranking.add(assessment.model_dump_json(), priority=assessment.priority, flagged=bool(assessment.flags))


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
