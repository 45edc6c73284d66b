"""The FastAPI app over a `Backend`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fastapi import FastAPI

from service import __version__

if TYPE_CHECKING:
    from service.api.backend import Backend

ROUTES = ("score", "sentences", "review", "decisions", "datasets", "model", "overview")


def create_app(backend: Backend) -> FastAPI:
    app = FastAPI(title="labelwatch", version=__version__, docs_url=None, redoc_url=None)
    app.state.backend = backend
    for name in ROUTES:
        try:
            module = importlib.import_module(f"service.api.routes.{name}")
        except ModuleNotFoundError:
            continue
        app.include_router(module.router)
    return app
