"""Runs an audit and writes its results: for `labelwatch score`, and for `labelwatch train` on its training data."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from tqdm import tqdm

from service.audit.audit import audit
from service.audit.report.page import ReportMetadata, render_page
from service.audit.summary import AuditSummary
from service.audit.temp_files import RankedLineFile
from service.audit.unknown_labels import UnknownLabelCounter
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import describe_empty_files
from service.cli.shared.terminal import (
    STDOUT,
    check_distinct_paths,
    check_writable,
    open_output,
    print_stderr,
    render_sentence,
)
from service.contracts import Assessment, BudgetPolicy, DatasetSettings
from service.errors import InvalidInput, UnknownLabelError
from service.formats import FileRecord
from service.formats.plain.assessments import OUTPUT_FORMATS_BY_ENDING, OutputFormat, build_assessment_writer
from service.inference.classifier import Classifier
from service.inference.model.pool import shorten_fingerprint
from service.inference.providers import parse_providers
from service.judging.class_source import ExternalClasses
from service.judging.judge import Judge
from service.judging.misfit import find_misfit
from service.labels.unknown_labels import format_names
from service.statistics.arrivals import FlagCounts
from service.text import pluralize

if TYPE_CHECKING:
    from service.audit.report.page import TrainingSection
    from service.cli.files.audit_input import AuditInput
    from service.cli.shared.rejects import RejectHandler
    from service.inference.model.folder import ModelFolder


@dataclass(frozen=True, slots=True)
class AuditOutputs:
    """The files of an audit, and what it writes. Without `output` the worst sentences are printed."""

    files: list[str]
    output: str | None = None
    output_format: OutputFormat | None = None
    report: str | None = None
    top: int | None = None
    flagged_only: bool = False

    def check_paths(self, rejects: RejectHandler) -> None:
        """Fails before the audit if its results could not be written after it."""
        if self.report == STDOUT and self.output == STDOUT:
            raise typer.BadParameter("--output already writes to standard output: give a file", param_hint="--report")
        skipped = str(rejects.path or STDOUT)
        outputs = {"--output": self.output, "--report": self.report, "the list of skipped sentences": skipped}
        check_distinct_paths(self.files, outputs)
        for path in (self.output, self.report):
            if path is not None:
                check_writable(path)
        self.choose_format()

    def choose_format(self) -> OutputFormat:
        """The format of the output: as given, or by the ending of its name. Without an ending: JSON Lines."""
        target = Path(self.output or STDOUT)
        ending = target.suffix.lower()
        if self.output_format is not None or not ending or (target.exists() and not target.is_file()):
            return self.output_format or "jsonl"
        if ending not in OUTPUT_FORMATS_BY_ENDING:
            *others, last = OUTPUT_FORMATS_BY_ENDING
            raise typer.BadParameter(
                f"{target.name} ends in {target.suffix}, which is no format of assessments: use {', '.join(others)} or {last}, or "
                "name the format with --output-format",
                param_hint="--output",
            )
        return OUTPUT_FORMATS_BY_ENDING[ending]


def run_audit(
    audit_input: AuditInput,
    source: ModelFolder | ExternalClasses,
    settings: DatasetSettings,
    *,
    stream: bool,
    outputs: AuditOutputs,
    rejects: RejectHandler,
    threads: int,
    providers: str,
    progress: bool | None,
    training: TrainingSection | None = None,
) -> AuditSummary:
    """Judges the records, and writes the ranked list, the report and the summary.

    `training` is shown in the report. With `ExternalClasses` the sentences bring their probabilities, and no model is loaded:
    `threads`, and the names of `providers`, are for the model.
    """
    with ExitStack() as stack:
        judge = _build_judge(source, settings)
        classifier = None
        if not isinstance(source, ExternalClasses):
            classifier = Classifier(source, threads=threads, providers=parse_providers(providers))
        summary, ranking = AuditSummary(judge.classes), stack.enter_context(RankedLineFile())
        hide_progress = not (sys.stderr.isatty() if progress is None else progress)
        started = time.monotonic()
        records = UnknownLabelCounter(audit_input.records, judge.label_map)
        try:
            _judge_records(
                replace(audit_input, records=records),
                classifier,
                judge,
                stream=stream,
                rejects=rejects,
                summary=summary,
                ranking=ranking,
                hide_progress=hide_progress,
            )
        except UnknownLabelError as error:
            records.read_rest()
            raise UnknownLabelError(f"{error}. In all, {records.describe()}") from error
        seconds = time.monotonic() - started
        if not summary.sentences:
            raise InvalidInput(_describe_empty_input(outputs.files, rejects, summary.deleted))
        _write_results(ranking, outputs)
        if outputs.report is not None:
            metadata = ReportMetadata(
                sources=outputs.files,
                model=source.name,
                fingerprint=source.fingerprint,
                method=settings.method,
                token_score=settings.token_score,
                scheme=judge.scheme,
                stream=stream,
                rejected=rejects.count,
                created_at=datetime.now(UTC),
                training=training,
            )
            with open_output(outputs.report) as file:
                file.write(render_page(summary, metadata))
        if classifier is not None and classifier.batching == "single":
            print_stderr("each sentence was run alone, which is slower: this model gives other answers in batches")
        _print_summary(summary, rejects, seconds, outputs)
        print_stderr(
            f"judged by {source.name} ({shorten_fingerprint(source.fingerprint)}){_describe_settings(settings)}"
        )
        if records.words:
            print_stderr(records.describe())
        misfit = find_misfit(FlagCounts(summary.sentences, summary.flagged_sentences), is_trained=source.is_trained)
        if misfit is not None:
            print_stderr(misfit.explain())
        elif isinstance(judge.flag_policy, BudgetPolicy):
            worst = max(1, round(judge.flag_policy.share * summary.sentences))
            print_stderr(
                f"the order of a trained model is better than its flags: look at the worst {pluralize(worst, 'sentence')} "
                f"first ({judge.flag_policy.share:.0%})"
            )
    return summary


def _build_judge(source: ModelFolder | ExternalClasses, settings: DatasetSettings) -> Judge:
    try:
        return Judge(source, settings)
    except InvalidInput as error:
        if error.field != "label_map":
            raise
        # With --dataset the entry may be that of the dataset, whose version is then not 0.
        option = "--map, or label_map of the dataset" if settings.version else "--map"
        raise InvalidInput(error.problem, field=option) from error


def _judge_records(
    audit_input: AuditInput,
    classifier: Classifier | None,
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


def _describe_settings(settings: DatasetSettings) -> str:
    """Where the settings come from, if the service has them."""
    return f" with the settings of {settings.name}, version {settings.version}" if settings.version else ""


def count_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have fewer than the machine
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _write_results(ranking: RankedLineFile, outputs: AuditOutputs) -> None:
    output = outputs.output
    limit = outputs.top if output is not None else outputs.top or opt.DEFAULT_TOP
    lines = ranking.iterate_worst_first(limit=limit, flagged_only=outputs.flagged_only)
    if output is None:
        for rank, line in enumerate(lines, 1):
            typer.echo(render_sentence(Assessment.model_validate_json(line), rank))
        return
    with open_output(output) as file:
        write = build_assessment_writer(file, outputs.choose_format())
        for rank, line in enumerate(lines, 1):
            write(line, rank)


def _describe_empty_input(files: list[str], rejects: RejectHandler, deleted: int) -> str:
    if rejects.count:
        return f"none of the {pluralize(rejects.count, 'sentence')} could be judged; the first: {rejects.first_error}"
    if deleted:
        return f"{', '.join(files)}: only {pluralize(deleted, 'sentence')} marked deleted"
    return describe_empty_files(files)


def _print_summary(summary: AuditSummary, rejects: RejectHandler, seconds: float, outputs: AuditOutputs) -> None:
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
    if summary.unused_types:
        print_stderr(
            f"not suggested, because no label has the type: {format_names(summary.unused_types)} (--all-types suggests "
            "them)"
        )
    if summary.deleted:
        print_stderr(f"{pluralize(summary.deleted, 'sentence')} left out: marked deleted")
    if rejects.count:
        print_stderr(
            f"{pluralize(rejects.count, 'sentence')} skipped{f', listed in {rejects.path}' if rejects.path else ''}"
        )
    if outputs.output not in (None, STDOUT):
        print_stderr(f"results: {outputs.output}")
    if outputs.report not in (None, STDOUT):
        print_stderr(f"report: {outputs.report}")
