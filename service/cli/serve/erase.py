"""`labelwatch erase`: removes one sentence from the embedded log for good."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.shared.embedded_log import check_log_exists, name_file_errors, read_embedded_settings
from service.cli.shared.terminal import print_stderr, sanitize
from service.runtime.erasure import Erasure, erase_sentence
from service.text import pluralize

DatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset of the sentence.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the sentence in its dataset.")]


def erase(dataset: DatasetArgument, sentence_id: IdArgument) -> None:
    """Erase a sentence and the decisions about it from the embedded log, for good. Stop the service first.

    Prints what was removed, and which files the command does not reach: logs that a restore has kept, and backups.
    """
    settings = read_embedded_settings("erases from embedded logs", section="Erasing a sentence")
    path = settings.log.path
    check_log_exists(path)
    with name_file_errors(path):
        erasure = erase_sentence(settings, dataset, sentence_id)
    for line in _describe(erasure):
        typer.echo(sanitize(line))
    for other in erasure.other_logs:
        print_stderr(
            f"not reached: {other}: delete it, or erase there too: LABELWATCH_LOG_PATH={other} labelwatch erase {dataset} "
            f"{sentence_id}"
        )
    print_stderr("not reached: backups, exports and other copies elsewhere")
    if not erasure.records:
        print_stderr(f"labelwatch: {path} holds nothing of {dataset}/{sentence_id}: check dataset and id")
        raise typer.Exit(1)


def _describe(erasure: Erasure) -> list[str]:
    lines = [f"removed: {pluralize(count, 'record')} of {topic}" for topic, count in erasure.records.items()]
    lines += [f"removed: {file}, which the service builds again" for file in erasure.queue_files]
    lines += [f"kept: {name}, which has no words and says that the sentence is deleted" for name in erasure.deletions]
    lines += [f"kept: {name} is no sentence that can be read, and may mention it" for name in erasure.mentions]
    return lines
