"""`labelwatch api`: the REST API without a worker."""

from __future__ import annotations

import typer

from service.cli.shared.terminal import print_stderr
from service.runtime.api.server import serve
from service.settings import read_settings


def api() -> None:
    """Serve the REST API until SIGTERM or Ctrl-C. Workers in other processes assess the sentences it receives."""
    print_stderr(serve(read_settings(), with_worker=False, announce=typer.echo))
