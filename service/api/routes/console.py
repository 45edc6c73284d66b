"""The review console: a page of its own files at `/`, which asks the API for everything else.

Files carry no version in their names, so browsers ask each time whether theirs is the newest, by its `ETag`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.http.problems import NotFoundError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PAGE: Final = "index.html"
KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing inline and nothing from elsewhere; a script that wrote text as HTML would be stopped by the browser itself.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
CACHED: Final = "no-cache"

router = APIRouter(include_in_schema=False)


class Asset(NamedTuple):
    content: bytes
    kind: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """The console's files by name: a handful, read once. No other name can be asked for."""
    return {one.name: _read(one) for one in files("service.api").joinpath("console").iterdir() if _kind(one.name)}


def _kind(name: str) -> str | None:
    return KINDS.get("." + name.rpartition(".")[2])


def _read(file: Traversable) -> Asset:
    content = file.read_bytes()
    return Asset(content, _kind(file.name) or "", f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@router.get("/")
async def console(request: Request) -> Response:
    return _answer(request, PAGE)


@router.get("/console/{name}")
async def part(request: Request, name: str) -> Response:
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    found = assets().get(name)
    if found is None:
        raise NotFoundError(f"there is no {name!r} here")
    headers = {"Cache-Control": CACHED, "ETag": found.tag, "Content-Security-Policy": POLICY}
    held = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if found.tag in held or "*" in held:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)
