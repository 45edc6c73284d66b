"""The console's files: which are served, their security and caching headers, and what they must not contain."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

import pytest

from service.api.routes.console import CONTENT_SECURITY_POLICY, load_assets

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

FILES = sorted(load_assets())
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def text(name: str) -> str:
    return load_assets()[name].content.decode()


def test_the_page_and_its_parts(quiet: ApiHarness) -> None:
    page = quiet.client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    parts = re.findall(r'(?:href|src)="(console/[^"]+)"', page.text)
    assert {part.rpartition(".")[2] for part in parts} == {"svg", "css", "js"}
    for part in parts:
        assert quiet.client.get(f"/{part}").status_code == 200


@pytest.mark.parametrize("name", FILES)
def test_browsers_ask_whether_theirs_is_the_newest(quiet: ApiHarness, name: str) -> None:
    first = quiet.client.get(f"/console/{name}")
    assert first.headers["cache-control"] == "no-cache"
    kind = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert first.headers["content-type"].startswith(kind[name.rpartition(".")[2]])
    again = quiet.client.get(f"/console/{name}", headers={"If-None-Match": f'"old", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert quiet.client.get(f"/console/{name}", headers={"If-None-Match": '"old"'}).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        *("", "nothing.js", "__init__.py", "queue", "queue/", "queue/nothing.js", "%2Fetc%2Fpasswd"),
        *("..%2Fapp.py", "%2e%2e/app.py", "queue/..%2F..%2Fapp.py", "queue/%2e%2e/app.js", "queue%5Cqueue.js"),
    ],
)
def test_nothing_else_can_be_asked_for(quiet: ApiHarness, name: str) -> None:
    assert quiet.client.get(f"/console/{name}").status_code == 404


def test_nothing_is_inline() -> None:
    page = text("index.html")
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_write_text_only(name: str) -> None:
    script = text(name)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\bstyle:", script
    )
    foreign = set(re.findall(r"https?://[\w.]+", script)) - {"http://www.w3.org"}
    assert foreign == set()
    imported = re.findall(r'(?:^import|^} from|\bfrom) +"([^"]+)"', script, re.MULTILINE)
    assert {posixpath.normpath(f"{posixpath.dirname(name)}/{path}".lstrip("/")) for path in imported} <= set(FILES)


def test_no_rule_asks_elsewhere() -> None:
    for name in FILES:
        if name.endswith(".css"):
            assert not re.search(r"url\(|@import", text(name))
