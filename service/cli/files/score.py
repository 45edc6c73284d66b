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
from service.audit.report.page import About, page
from service.audit.summary import Summary
from service.audit.temp_files import Ranking
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import Reading, reads_files
from service.cli.shared.rejects import Rejects
from service.cli.shared.terminal import (
    STDOUT,
    called_in_ids,
    check_apart,
    check_writable,
    open_output,
    say,
    sentence_lines,
)
from service.contracts import Assessment, DatasetSettings
from service.errors import InvalidInput
from service.formats import Options, Record, read_records
from service.formats.plain.assessments import OutputFormat, writer
from service.inference.classifier import Classifier
from service.inference.model.default import default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.labels import Scheme, detect_scheme
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.audit.audit import Located

# A pipe can't be read twice: its scheme is told by this many sentences.
SAMPLE = 1_000


@reads_files
def score(
    *,
    reading: Reading,
    on_error: opt.Skip = "stop",
    model: opt.Model = None,
    precision: opt.Exactness = "fast",
    scheme: opt.SchemeName = None,
    mapping: opt.Mapping = None,
    unmapped: opt.Unmapped = "reject",
    method: opt.MethodName = "worst-token",
    token_score: opt.TokenScoreName = "self-confidence",
    stream: opt.Stream = False,
    output: opt.Output = None,
    output_format: opt.OutputForm = None,
    report: opt.Report = None,
    flagged_only: opt.FlaggedOnly = False,
    top: opt.Top = None,
    fail_on_flagged: opt.FailOnFlagged = False,
    threads: opt.Threads = None,
    progress: opt.Bar = None,
) -> None:
    """Audit files of labelled sentences: which labels are doubtful, and which sentences to look at first.

    Reads CoNLL columns, JSON Lines, CSV, TSV and exports of annotation platforms, gzipped or not. Exit codes: 0 done, 1
    the input or the model can't be used, 2 wrong usage, 3 with --fail-on-flagged if anything was flagged.
    """
    files = reading.files
    if report == STDOUT and output == STDOUT:
        raise typer.BadParameter("the output is on standard output already", param_hint="--report")
    settings = DatasetSettings(
        label_map=_label_map(mapping or ()), unmapped=unmapped, method=method, token_score=token_score
    )
    options = reading.options(scheme=scheme)
    rejects = Rejects(on_error, output)
    check_apart(
        files, {"--output": output, "--report": report, "the list of skipped sentences": str(rejects.path or STDOUT)}
    )
    for path in (output, report):
        if path not in (None, STDOUT):
            check_writable(str(path))
    with ExitStack() as stack:
        stack.enter_context(rejects)
        folder = ModelFolder.load(model or default_model(), precision=precision)
        records, settings, expected = _prepared(
            files, reading.format, options, settings, scheme=scheme, rejects=rejects
        )
        judge = Judge(folder, settings)
        classifier = Classifier(folder, threads=threads or _cores())
        started = time.monotonic()
        summary, ranking = Summary(judge.classes), stack.enter_context(Ranking())
        bar = stack.enter_context(
            tqdm(
                total=expected,
                unit=" sentences",
                file=sys.stderr,
                disable=not (sys.stderr.isatty() if progress is None else progress),
            )
        )

        def deleted(_: Located) -> None:
            summary.deleted += 1

        judged = audit(
            records,
            classifier,
            judge,
            stream=stream,
            reject=rejects,
            progress=lambda n: bar.update(n - bar.n),
            deleted=deleted,
        )
        for seen, assessment in judged:
            summary.add(assessment, seen)
            ranking.add(assessment.model_dump_json(), priority=assessment.priority, flagged=bool(assessment.flags))
        bar.close()
        if not summary.sentences:
            raise InvalidInput(_nothing(files, rejects, summary.deleted))
        seconds = time.monotonic() - started
        _write(ranking, output, output_format, top=top, flagged_only=flagged_only)
        if report is not None:
            about = About(
                sources=files,
                model=folder.name,
                fingerprint=folder.fingerprint,
                method=method,
                token_score=token_score,
                scheme=judge.scheme,
                stream=stream,
                rejected=rejects.count,
                made_at=datetime.now(UTC),
            )
            with open_output(report) as file:
                file.write(page(summary, about))
        if classifier.batching == "single":
            say("each sentence was run alone, which is slower: in batches this model gives other answers")
        _tell(summary, rejects, seconds, output=output, report=report)
    if fail_on_flagged and summary.flagged_sentences:
        raise typer.Exit(opt.FLAGGED)


def _label_map(pairs: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is not OLD=NEW, such as PERSON=PER", param_hint="--map")
        if found.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old} is mapped to {found[old]} and to {new}", param_hint="--map")
    return found


def _prepared(
    files: list[str],
    form: str | None,
    options: Options,
    settings: DatasetSettings,
    *,
    scheme: str | None,
    rejects: Rejects,
) -> tuple[Iterable[Record], DatasetSettings, int | None]:
    """The records to audit, the settings with the labels' scheme, and how many sentences there are if that is known.

    Where nobody names the scheme, files are read once more for it: a few per cent of the time that judging takes.
    """
    records = _records(files, form, options)
    if scheme is not None:
        return records, settings.model_copy(update={"scheme": Scheme(scheme).value}), None
    again = all(name != STDOUT and Path(name).is_file() for name in files)
    sample: Iterable[Record] = _records(files, form, options) if again else list(itertools.islice(records, SAMPLE))
    sentences = 0
    broken: InvalidInput | None = None  # a sentence that can't be read at all: no option would help

    def labels() -> Iterator[tuple[str, ...]]:
        nonlocal sentences, broken
        for record in sample:
            if record.error is not None and rejects.stops:
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


def _records(files: list[str], form: str | None, options: Options) -> Iterator[Record]:
    for name in files:
        called = "stdin" if name == STDOUT else called_in_ids(name, files)
        chosen = replace(options, id_prefix=f"{called}:")
        yield from read_records(name, format=form, options=chosen)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # in a container fewer than the machine has
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _write(
    ranking: Ranking, output: str | None, form: OutputFormat | None, *, top: int | None, flagged_only: bool
) -> None:
    lines = ranking.worst_first(most=top if output is not None else top or opt.SHOWN, flagged_only=flagged_only)
    if output is None:
        for rank, line in enumerate(lines, 1):
            typer.echo(sentence_lines(Assessment.model_validate_json(line), rank))
        return
    with open_output(output) as stream:
        write = writer(stream, form or ("csv" if output.lower().endswith(".csv") else "jsonl"))
        for rank, line in enumerate(lines, 1):
            write(line, rank)


def _nothing(files: list[str], rejects: Rejects, deleted: int) -> str:
    if rejects.count:
        return f"none of the {plural(rejects.count, 'sentence')} could be judged; the first: {rejects.first}"
    if deleted:
        return f"{', '.join(files)}: nothing but {plural(deleted, 'sentence')} marked deleted"
    return f"no sentence in {', '.join(files)}"


def _tell(summary: Summary, rejects: Rejects, seconds: float, *, output: str | None, report: str | None) -> None:
    speed = f"{summary.sentences / seconds:,.0f} sentences/s" if seconds > 0 else "at once"
    share = summary.flagged_sentences / summary.sentences
    say(f"{plural(summary.sentences, 'sentence')}, {plural(summary.words, 'word')} in {seconds:.1f} s ({speed})")
    say(
        f"{plural(summary.flagged_sentences, 'sentence')} flagged ({share:.1%}) with "
        f"{plural(summary.flagged_words, 'doubtful label')}"
    )
    for reason, number in summary.unscored.most_common():
        say(f"{plural(number, 'word')} not scored: {reason}")
    if summary.deleted:
        say(f"{plural(summary.deleted, 'sentence')} marked deleted and left out")
    if rejects.count:
        say(f"{plural(rejects.count, 'sentence')} skipped{f', listed in {rejects.path}' if rejects.path else ''}")
    if output not in (None, STDOUT):
        say(f"results: {output}")
    if report not in (None, STDOUT):
        say(f"report: {report}")
