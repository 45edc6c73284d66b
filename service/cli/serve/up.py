"""`labelwatch up`: everything in one process."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_FEED_RATE = 10.0


def up(
    feed: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Also send this file's sentences to the dataset `sample`, one after the other, as if they were being "
            "annotated: to see the service at work.",
        ),
    ] = None,
    feed_rate: Annotated[
        float, typer.Option(min=0.01, max=1000, metavar="N", help="Sentences of --feed a second.")
    ] = DEFAULT_FEED_RATE,
) -> None:
    """Run the REST API and a worker in one process, on the embedded log, or on Kafka where a broker is named."""
    from service.runtime.server import serve  # the other commands need no web server

    serve(with_worker=True, feed=feed, feed_rate=feed_rate)
