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

INDEX_FILE: Final = "index.html"
MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing inline and nothing from elsewhere; a script that wrote text as HTML would be stopped by the browser itself.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
CACHE_CONTROL: Final = "no-cache"

router = APIRouter(include_in_schema=False)


class ConsoleAsset(NamedTuple):
    content: bytes
    media_type: str
    etag: str


@cache
def load_assets() -> dict[str, ConsoleAsset]:
    """The console's files by name: a handful, read once. No other name can be asked for."""
    return {
        one.name: _read_asset(one)
        for one in files("service.api").joinpath("console").iterdir()
        if _get_media_type(one.name)
    }


def _get_media_type(name: str) -> str | None:
    return MEDIA_TYPES.get("." + name.rpartition(".")[2])


def _read_asset(file: Traversable) -> ConsoleAsset:
    content = file.read_bytes()
    return ConsoleAsset(content, _get_media_type(file.name) or "", f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@router.get("/")
async def serve_console(request: Request) -> Response:
    return _respond_with_asset(request, INDEX_FILE)


@router.get("/console/{name}")
async def serve_file(request: Request, name: str) -> Response:
    return _respond_with_asset(request, name)


def _respond_with_asset(request: Request, name: str) -> Response:
    found = load_assets().get(name)
    if found is None:
        raise NotFoundError(f"there is no {name!r} here")
    headers = {"Cache-Control": CACHE_CONTROL, "ETag": found.etag, "Content-Security-Policy": CONTENT_SECURITY_POLICY}
    held = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if found.etag in held or "*" in held:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)
