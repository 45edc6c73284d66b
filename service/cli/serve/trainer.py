"""`labelwatch trainer`: trains models from what datasets have stored, for a cluster of workers."""

from __future__ import annotations

from service.cli.shared.terminal import print_stderr
from service.runtime.training.run import run_trainer
from service.settings import read_settings


def trainer() -> None:
    """Train models for datasets with labels that no model fits, and again as they grow, until SIGTERM or Ctrl-C.

    Models go into the registry (LABELWATCH_MODELS_PATH), which the workers and the API must see too. Several trainers may
    run: one of them works, and another takes over when it ends. `labelwatch up` has a trainer of its own.
    """
    print_stderr(run_trainer(read_settings()))
