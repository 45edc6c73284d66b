"""`labelwatch api`: the REST API alone, beside workers that run elsewhere."""

from __future__ import annotations


def api() -> None:
    """Serve the REST API until SIGTERM or Ctrl-C; sentences sent to it wait for a worker."""
    from service.runtime.server import serve  # the other commands need no web server

    serve(with_worker=False)
