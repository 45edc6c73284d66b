"""`labelwatch accept`: whether a delivery is good enough, by what reviewers decided so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from service.cli.shared.tables import render_table
from service.cli.shared.terminal import sanitize
from service.contracts import DatasetSettings
from service.datasets.registry import check_dataset_exists
from service.errors import InvalidInput
from service.review.queue.figures.batches import BatchReport, build_batch_report
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.open_log import build_topics, open_existing_log
from service.runtime.review_queue import build_review_queue
from service.settings import read_settings
from service.stream.state.batches import sum_batches
from service.stream.state.reader import read_state
from service.text import pluralize

if TYPE_CHECKING:
    from service.statistics.batches import DatasetBatches

EXIT_CODE_REJECT: Final = 3
EXIT_CODE_REVIEW: Final = 4
EXIT_CODES: Final = {"accept": 0, "reject": EXIT_CODE_REJECT, "review": EXIT_CODE_REVIEW, None: EXIT_CODE_REVIEW}

DatasetOption = Annotated[str, typer.Option(metavar="NAME", help="The dataset.")]
BatchOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The delivery. Without it, all deliveries are listed.")
]
MaxErrorRateOption = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="The highest share of wrong sentences to accept. Default: `max_error_rate` of the dataset's settings.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def accept(
    *,
    dataset: DatasetOption = "default",
    batch: BatchOption = None,
    max_error_rate: MaxErrorRateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether a delivery is good enough: the share of wrong sentences with its interval, and a verdict.

    The exit code is 0 for accept, 3 for reject, 4 if more items must be reviewed for a verdict.
    """
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        by_dataset, snapshot = read_dataset_settings(log, topics), read_state(log, topics).snapshot
        check_dataset_exists(dataset, sorted({*by_dataset, *snapshot.datasets}))
        limit = max_error_rate
        if limit is None:
            limit = (by_dataset.get(dataset) or DatasetSettings(name=dataset)).max_error_rate
        if batch is not None and limit is None:
            raise InvalidInput(
                "there is no limit: name one with --max-error-rate, say 0.03, or set it for the dataset with "
                f"`labelwatch datasets set {dataset} max_error_rate=0.03`"
            )
        counts = sum_batches(snapshot.batches, dataset)
        names = sorted(counts.batches) if batch is None else [check_batch_exists(counts, dataset, batch)]
        with build_review_queue(log, topics) as queue:
            reports = [
                build_batch_report(
                    dataset,
                    name,
                    counts.batches[name],
                    queue.read_batch_outcomes(dataset, name),
                    max_error_rate=limit,
                )
                for name in names
            ]
    if batch is None:
        _print_list(dataset, reports, as_json=as_json)
        return
    (report,) = reports
    typer.echo(report.model_dump_json() if as_json else sanitize_lines(render_report(report)))
    raise typer.Exit(EXIT_CODES[report.verdict])


def check_batch_exists(counts: DatasetBatches, dataset: str, batch: str) -> str:
    if batch not in counts.batches:
        known = ", ".join(list(counts.batches)[-5:][::-1])
        hint = f"the last ones are {known}" if known else "no sentence of it names a batch"
        raise InvalidInput(f"{dataset} has no judged sentence of batch {batch!r}: {hint}")
    return batch


def sanitize_lines(text: str) -> str:
    return "\n".join(sanitize(line) for line in text.splitlines())


def render_report(report: BatchReport) -> str:
    lines = [
        f"{report.dataset}, batch {report.batch}: {pluralize(report.sentences, 'sentence')}",
        f"flagged   {report.flagged:,}, of which {report.flagged_decided:,} decided, {report.flagged_wrong:,} wrong",
        f"control   {report.controls:,}, of which {report.controls_decided:,} decided, {report.controls_wrong:,} wrong"
        + (f"; {report.controls_lost:,} annotated again or deleted before" if report.controls_lost else ""),
    ]
    if report.unsampled:
        lines.append(f"no sample {report.unsampled:,} sentences arrived while the control share was 0")
    lines.append(f"wrong     {format_interval(report)}")
    verdict = report.verdict or "no verdict"
    lines.append(f"{verdict}{'' if report.max_error_rate is None else f' (limit {report.max_error_rate:.2%})'}")
    if report.advice is not None:
        lines.append(report.advice)
    return "\n".join(lines)


def format_interval(report: BatchReport) -> str:
    estimate = "unknown" if report.error_rate is None else f"{report.error_rate:.2%}"
    return f"{estimate}, 95 % interval {report.low:.2%} to {report.high:.2%}"


def _print_list(dataset: str, reports: list[BatchReport], *, as_json: bool) -> None:
    if as_json:
        for report in reports:
            typer.echo(report.model_dump_json())
        return
    if not reports:
        typer.echo(f"no sentence of {dataset} names a batch: send them with `labelwatch send --batch NAME`")
        return
    rows = [
        [report.batch, f"{report.sentences:,}", f"{report.open:,}", format_interval(report), report.verdict or ""]
        for report in reports
    ]
    table = render_table(["batch", "sentences", "open", "wrong", "verdict"], rows, right_aligned=(1, 2))
    typer.echo(sanitize_lines(table))
