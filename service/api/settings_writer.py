"""Writes changes of a dataset's settings for requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.access.audit_log import join_fields
from service.api.access.actor import get_actor
from service.api.backend import get_backend
from service.datasets.changes import merge_settings, replace_settings, write_change
from service.datasets.label_fit import check_model_fits
from service.stream.state.change_effects import find_effects

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.requests import Request

    from service.api.backend import Backend
    from service.contracts import DatasetSettings
    from service.stream.state.change_effects import ChangeEffect

VISIBLE_TIMEOUT_S: Final = 5.0
VISIBLE_POLL_INTERVAL_S: Final = 0.02


class WrittenSettings(NamedTuple):
    settings: DatasetSettings
    effects: list[ChangeEffect]


async def write_settings(
    request: Request,
    name: str,
    fields: Mapping[str, Any],
    *,
    if_match: Collection[str] | None = None,
    partial: bool,
    dry_run: bool = False,
    visible_timeout_s: float = VISIBLE_TIMEOUT_S,
) -> WrittenSettings:
    """Changes the settings that `fields` names, or (not `partial`) replaces all, and waits until this process has read it.

    With `dry_run` the change is checked and not written.
    """
    backend = get_backend(request)
    change_settings = merge_settings if partial else replace_settings
    view = backend.state_view
    lock: asyncio.Lock = request.app.state.settings_lock
    async with lock:
        state, snapshot = view.get_settings_state(name), view.snapshot
        change = change_settings(state, fields, build_judge=view.build_judge, if_match=if_match)
        check_model_fits(change, snapshot.get_arrivals(name).total)
        effects = find_effects(change, state.in_force, snapshot, names=view.list_names(), build_judge=view.build_judge)
        if dry_run:
            return WrittenSettings(change.settings, effects)
        actor = get_actor(request)
        audit = actor.build_message(
            backend.topics.audit, "settings", dataset=name, version=change.settings.version, fields=join_fields(fields)
        )
        await backend.appender.write(
            lambda log, timeout: write_change(
                log,
                backend.topics.datasets,
                change,
                request_id=actor.request_id,
                also=[audit] if backend.is_audited else [],
                timeout=timeout,
            )
        )
        await _wait_until_visible(backend, change.settings, visible_timeout_s)
    return WrittenSettings(change.settings, effects)


async def _wait_until_visible(backend: Backend, settings: DatasetSettings, timeout_s: float) -> None:
    """Waits until this process has read the change, so that the next GET shows it. Gives up on a slow log."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while backend.state_view.get_settings_state(settings.name).latest.version < settings.version:
        if loop.time() >= deadline:
            return
        await asyncio.sleep(VISIBLE_POLL_INTERVAL_S)
