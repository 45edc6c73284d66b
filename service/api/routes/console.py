"""Serves the review console: a page at `/` and its scripts and styles under `/console/`. The page calls the API for data.

File names carry no version, so browsers revalidate each file by its `ETag`.
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
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

INDEX_FILE: Final = "index.html"
MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# No inline code, no other origins. Trusted types make the browser stop a script that writes text as HTML.
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
    """The console's files by their path below `/console/`, read once. Requests can name nothing else."""
    return dict(_walk_assets(files("service.api").joinpath("console"), ""))


def _walk_assets(folder: Traversable, prefix: str) -> Iterator[tuple[str, ConsoleAsset]]:
    for entry in folder.iterdir():
        media_type = MEDIA_TYPES.get("." + entry.name.rpartition(".")[2])
        if entry.is_dir():
            yield from _walk_assets(entry, f"{prefix}{entry.name}/")
        elif media_type is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            yield f"{prefix}{entry.name}", ConsoleAsset(content, media_type, etag)


@router.get("/")
async def serve_console(request: Request) -> Response:
    return _respond_with_asset(request, INDEX_FILE)


@router.get("/console/{name:path}")
async def serve_file(request: Request, name: str) -> Response:
    return _respond_with_asset(request, name)


def _respond_with_asset(request: Request, name: str) -> Response:
    asset = load_assets().get(name)
    if asset is None:
        raise NotFoundError(f"the console has no file {name!r}")
    headers = {"Cache-Control": CACHE_CONTROL, "ETag": asset.etag, "Content-Security-Policy": CONTENT_SECURITY_POLICY}
    cached_etags = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if asset.etag in cached_etags or "*" in cached_etags:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
