"""Keys of the API over REST, for admins."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from service.access.key_changes import create_key, revoke_key, rotate_key, write_key_change
from service.api.access.actor import get_actor
from service.api.access.api_keys import require_keys_read
from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep
from service.api.http.bodies import parse_message, read_json_object
from service.api.http.problems import NotFoundError
from service.contracts.access.key import StoredKey
from service.contracts.access.roles import ADDRESS_ROLES, KEY_NAME_PATTERN, Role
from service.contracts.base import DatasetName
from service.errors import ConflictError, InvalidInput

if TYPE_CHECKING:
    from service.access.key_changes import KeyChange
    from service.api.access.caller import Caller

router = APIRouter(tags=["keys"])

NO_NAME: Final = "(no key)"
VISIBLE_TIMEOUT_S: Final = 5.0
VISIBLE_POLL_INTERVAL_S: Final = 0.02
EXAMPLE: Final[dict[str, Any]] = {"name": "dana", "role": "reviewer", "datasets": ["med"]}

NamePath = Annotated[str, Path(min_length=1, max_length=64, description="Name of the key", examples=["dana"])]


class KeyInfo(BaseModel):
    """A key, without the key itself, which is stored nowhere."""

    name: str
    role: Role
    datasets: list[str] | None = Field(description="The only datasets that it is for; null: all")
    source: str = Field(description="`topic`: it can be rotated and revoked; `settings`: of LABELWATCH_API_KEYS")
    created_at: datetime | None = None
    created_by: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @classmethod
    def from_stored(cls, key: StoredKey) -> Self:
        fields = key.model_dump(exclude={"digest", "datasets"})
        return cls(**fields, datasets=list(key.datasets) or None, source="topic")


class KeyList(BaseModel):
    keys: list[KeyInfo]


class NewKey(BaseModel):
    """A key that was just created. The key itself is shown only here."""

    key: str = Field(description="The key: send it as `Authorization: Bearer KEY`", examples=["lw_…"])
    info: KeyInfo


class EmptyRequest(BaseModel):
    """A request that needs no fields."""


class KeyRequest(BaseModel):
    """Who the key is for, and what it may do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [EXAMPLE],
            # A key that is part of an address is for one dataset.
            "if": {"properties": {"role": {"enum": list(ADDRESS_ROLES)}}},
            "then": {"required": ["datasets"], "properties": {"datasets": {"minItems": 1, "maxItems": 1}}},
        }
    )

    name: StrictStr = Field(min_length=1, max_length=64, json_schema_extra={"pattern": f"^{KEY_NAME_PATTERN}$"})
    role: Role
    datasets: tuple[DatasetName, ...] = Field(default=(), description="The only datasets that it is for; none: all")


@router.get("/v1/keys", summary="All keys")
async def list_keys(backend: BackendDep) -> KeyList:
    """Keys of the settings and of the topic, also revoked ones. Nobody can see the keys themselves."""
    of_settings = [
        KeyInfo(name=key.name, role=key.role, datasets=list(key.datasets) or None, source="settings")
        for key in backend.settings.known_keys
    ]
    return KeyList(keys=of_settings + [KeyInfo.from_stored(key) for key in backend.key_view.keys])


@router.post(
    "/v1/keys",
    summary="Create a key",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": KeyRequest.model_json_schema()}},
        }
    },
)
async def new_key(request: Request, backend: BackendDep, caller: CallerDep) -> NewKey:
    """Creates a key. It is valid at once in this process, and within a second in others.

    The answer holds the key, which is stored nowhere: only its hash is. The first key of a service without keys must
    have the role `admin`.
    """
    body = parse_message(KeyRequest, await read_json_object(request))
    require_keys_read(backend.key_view)
    if caller.kind == "anybody" and (body.role != "admin" or body.datasets):
        raise InvalidInput("the first key must be that of an admin, for all datasets", field="role")
    if any(key.name == body.name for key in backend.settings.known_keys):
        raise ConflictError(f"{body.name} has a key in LABELWATCH_API_KEYS: choose another name", field="name")
    keys = backend.key_view.copy_keys()
    change = create_key(keys, name=body.name, role=body.role, datasets=body.datasets, by=_get_name(caller))
    return await _write(request, backend, change)


@router.post(
    "/v1/keys/{name}/rotate",
    summary="Rotate a key",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object", "maxProperties": 0}, "example": {}}},
        }
    },
)
async def rotate(name: NamePath, request: Request, backend: BackendDep, caller: CallerDep) -> NewKey:
    """Creates a new key with the same name, role and datasets. The old one stops working within a second.

    The body is an empty object.
    """
    parse_message(EmptyRequest, await read_json_object(request))
    _require_stored(backend, name)
    return await _write(request, backend, rotate_key(backend.key_view.copy_keys(), name, by=_get_name(caller)))


@router.delete("/v1/keys/{name}", summary="Revoke a key")
async def revoke(name: NamePath, request: Request, backend: BackendDep, caller: CallerDep) -> KeyInfo:
    """The key stops working within a second, also for open streams of events. Nobody can revoke their own key."""
    _require_stored(backend, name)
    if caller.kind == "key" and caller.name == name:
        raise ConflictError("nobody can revoke their own key: ask another admin, or run `labelwatch key revoke`")
    change = revoke_key(backend.key_view.copy_keys(), name, by=_get_name(caller))
    return (await _write(request, backend, change)).info


def _get_name(caller: Caller) -> str:
    return caller.name or NO_NAME


def _require_stored(backend: Backend, name: str) -> None:
    require_keys_read(backend.key_view)
    stored = backend.key_view.get(name).key
    if stored is None or not stored.is_active:
        in_settings = any(key.name == name for key in backend.settings.known_keys)
        hint = "it is in LABELWATCH_API_KEYS: change that setting" if in_settings else "see GET /v1/keys"
        raise NotFoundError(f"there is no valid key of the name {name!r} in the topic: {hint}", field="name")


async def _write(request: Request, backend: Backend, change: KeyChange) -> NewKey:
    """Writes the change, and waits until this process has read it."""
    actor = get_actor(request)
    await backend.appender.write(
        lambda log, timeout: write_key_change(
            log, backend.topics, change, actor, audited=backend.is_audited, timeout=timeout
        )
    )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + VISIBLE_TIMEOUT_S
    while backend.key_view.get(change.key.name).key != change.key and loop.time() < deadline:
        await asyncio.sleep(VISIBLE_POLL_INTERVAL_S)
    return NewKey(key=change.text or "", info=KeyInfo.from_stored(change.key))
