"""Writes changes of a dataset's settings for requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from service.api.backend import get_backend, get_request_id
from service.datasets.changes import merge_settings, replace_settings, write_change
from service.datasets.label_fit import check_model_fits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.requests import Request

    from service.api.backend import Backend
    from service.contracts import DatasetSettings

VISIBLE_TIMEOUT_S: Final = 5.0
VISIBLE_POLL_INTERVAL_S: Final = 0.02


async def write_settings(
    request: Request,
    name: str,
    fields: Mapping[str, Any],
    *,
    if_match: Collection[str] | None = None,
    partial: bool,
    visible_timeout_s: float = VISIBLE_TIMEOUT_S,
) -> DatasetSettings:
    """Changes the settings that `fields` names, or (not `partial`) replaces all, and waits until this process has read it."""
    backend = get_backend(request)
    change_settings = merge_settings if partial else replace_settings
    view = backend.state_view
    lock: asyncio.Lock = request.app.state.settings_lock
    async with lock:
        change = change_settings(view.get_settings_state(name), fields, build_judge=view.build_judge, if_match=if_match)
        check_model_fits(change, view.snapshot.get_arrivals(name).total)
        await backend.appender.write(
            lambda log, timeout: write_change(
                log, backend.topics.datasets, change, request_id=get_request_id(request), timeout=timeout
            )
        )
        await _wait_until_visible(backend, change.settings, visible_timeout_s)
    return change.settings


async def _wait_until_visible(backend: Backend, settings: DatasetSettings, timeout_s: float) -> None:
    """Waits until this process has read the change, so that the next GET shows it. Gives up on a slow log."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while backend.state_view.get_settings_state(settings.name).latest.version < settings.version:
        if loop.time() >= deadline:
            return
        await asyncio.sleep(VISIBLE_POLL_INTERVAL_S)
