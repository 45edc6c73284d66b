"""`labelwatch up`: everything in one process."""

from __future__ import annotations


def up() -> None:
    """Run the REST API and a worker in one process, on the embedded log, or on Kafka where a broker is named."""
    from service.commands.serving import serve  # the other commands need no web server

    serve(with_worker=True)
