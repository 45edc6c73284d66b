"""`labelwatch up`: the API and a worker in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.shared.terminal import print_stderr
from service.errors import InvalidInput
from service.runtime.api.server import serve
from service.runtime.sample_feed import FileFeed
from service.settings import read_settings

DEFAULT_FEED_RATE = 10.0

FeedOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Send the sentences of this file to the dataset `sample`, one after the other, as if somebody were "
        "annotating them: a demo of the service.",
    ),
]
FeedRateOption = Annotated[float, typer.Option(min=0.01, max=1000, metavar="N", help="Sentences of --feed per second.")]


def up(feed: FeedOption = None, feed_rate: FeedRateOption = DEFAULT_FEED_RATE) -> None:
    """Run the REST API and a worker in one process, on the embedded log, or on Kafka if a broker is set."""
    settings = read_settings()
    if feed is not None and not Path(feed).is_file():
        raise InvalidInput(f"--feed: there is no file {feed}")
    file_feed = None if feed is None else FileFeed(settings, feed, feed_rate)
    print_stderr(serve(settings, with_worker=True, announce=typer.echo, feed=file_feed))
