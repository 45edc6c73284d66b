"""Adapts the pages of the repository to the site of `make docs`.

Pages link to each other as files of the repository, so that the links work on a code host too. Some targets are outside of
docs/: a few of them become pages of the site, under project/. Links to other files and folders become plain text, or links
to the code host if `repo_url` is set.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File
from pymdownx.slugs import slugify

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS, PROJECT = "docs", "project"
PROJECT_PAGES = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "models/README.md",
    "models/sample/README.md",
    "models/default/CARD.md",
    "models/light/CARD.md",
    "models/encoder/CARD.md",
)
LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
# Code hosts begin a list after a line of text; the site's Markdown needs an empty line before it.
LIST_AFTER_TEXT = re.compile(r"^([^\s\-#|>\x00].*)\n(?=- )", re.MULTILINE)
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    # Anchors as code hosts derive them.
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> None:
    for path in PROJECT_PAGES:
        files.append(File.generated(config, f"{PROJECT}/{path}", abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Rewrites the links outside of code."""
    source = page.file.src_uri

    def rewrite(match: re.Match[str]) -> str:
        text, target = match["text"], match["target"]
        if target.startswith("#") or re.match(r"[a-z]+:", target):
            return match[0]
        file, hash_sign, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(_find_repository_path(source)), file))
        address = _find_site_path(path)
        if address is not None:
            return f"[{text}]({posixpath.relpath(address, posixpath.dirname(source))}{hash_sign}{anchor})"
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/{path})"
        return text

    # Links are outside of code; inline code within the text of a link stays in it.
    parts = CODE.split(markdown)
    held = {f"\x00{number}\x00": part for number, part in enumerate(parts) if number % 2}
    joined = "".join(f"\x00{number}\x00" if number % 2 else part for number, part in enumerate(parts))
    spaced = LIST_AFTER_TEXT.sub(r"\1\n\n", joined)
    return re.sub("\x00\\d+\x00", lambda match: held[match[0]], LINK.sub(rewrite, spaced))


def _find_repository_path(source: str) -> str:
    return source.removeprefix(f"{PROJECT}/") if source.startswith(f"{PROJECT}/") else f"{DOCS}/{source}"


def _find_site_path(path: str) -> str | None:
    """Where the site has a file of the repository; README is its home page."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if path == "README.md":
        return "index.md"
    return f"{PROJECT}/{path}" if path in PROJECT_PAGES else None
