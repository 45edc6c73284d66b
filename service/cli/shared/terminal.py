"""Output of commands: files that appear whole or not at all, and text that is safe to show on a terminal."""

from __future__ import annotations

import codecs
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import typer

from service.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from service.contracts import Assessment

STDOUT = "-"
# Control characters and direction marks. Words come from data, and a terminal executes control sequences.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def check_writable(path: str) -> None:
    """Checks before the work that the result can be written after it, to a file or to standard output."""
    if path == STDOUT:
        return
    target = Path(path)
    if target.is_dir():
        raise SettingsError(f"can't write {path}: it is a folder")
    if not target.parent.is_dir():
        raise SettingsError(f"can't write {path}: there is no folder {target.parent}: create it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise SettingsError(f"can't write {path}: no permission")


def create_output_folder(path: str) -> None:
    """Creates a folder for results before the work, so that they can be written after it."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"can't create {path}: {error.strerror or error}") from error
    if not os.access(path, os.W_OK):
        raise SettingsError(f"can't write to {path}: no permission")


def check_distinct_paths(inputs: Iterable[str], outputs: Mapping[str, str | None]) -> None:
    """Refuses to overwrite an input, or to write two outputs to one file. `outputs`: paths by option."""
    owners = {_get_file_identity(name): name for name in inputs}
    for option, path in outputs.items():
        if path is None or path == STDOUT:
            continue
        target = Path(path)
        if target.exists() and not target.is_file():  # several outputs may go to a pipe or /dev/null
            continue
        if (other := owners.setdefault(_get_file_identity(path), option)) is not option:
            raise typer.BadParameter(f"{path} is {_describe_role(other, outputs)} already", param_hint=option)


def _describe_role(other: str, outputs: Mapping[str, str | None]) -> str:
    return f"the file of {other}" if other in outputs else f"the input {other}"


def _get_file_identity(path: str) -> tuple[int, int] | str:
    """The same for all names of a file: relative paths, links, and a redirected standard input."""
    try:
        status = os.fstat(0) if path == STDOUT else Path(path).stat()
    except OSError:
        return os.path.realpath(path)
    return (status.st_dev, status.st_ino)


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """UTF-8 text to a file, or to standard output for `-`.

    A file is written under a temporary name and renamed when it is complete, so that readers never see half of it.
    """
    if path == STDOUT:
        binary = typer.get_binary_stream("stdout")
        with _as_write_error("standard output"):
            # Not a TextIOWrapper: after a failed write it would close the process's standard output.
            yield cast("TextIO", codecs.getwriter("utf-8")(binary))
            binary.flush()
        return
    target = Path(path)
    if target.exists() and not target.is_file():  # a pipe or /dev/null must not be replaced by a file
        with _as_write_error(path), target.open("w", encoding="utf-8", newline="") as special:
            yield special
        return
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        # mkstemp creates files that only the owner can read. Give it the permissions of any new file.
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(target)
    except OSError as error:
        raise SettingsError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        if name:  # renamed by now if all went well
            Path(name).unlink(missing_ok=True)


@contextmanager
def _as_write_error(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # no error: the reader has stopped
        raise
    except OSError as error:
        raise SettingsError(f"can't write {name}: {error.strerror or error}") from error


def print_stderr(text: str) -> None:
    """Prints a line on standard error, safe for a terminal."""
    typer.echo(sanitize(text), err=True)


def sanitize(text: str) -> str:
    """Replaces characters that a terminal would execute."""
    return _UNSAFE.sub("\ufffd", text)


def render_sentence(assessment: Assessment, rank: int) -> str:
    """A sentence as text: its id and source, and its words with the doubtful ones marked."""
    flags = {flag.index: flag for flag in assessment.flags}
    words = [
        sanitize(token) if index not in flags else _highlight(f"{token}[{flags[index].given}→{flags[index].suggested}]")
        for index, token in enumerate(assessment.tokens)
    ]
    priority = "–" if assessment.priority is None else f"{assessment.priority:.3g}"
    location = assessment.id or ""
    if assessment.source and assessment.source != assessment.id:
        location = f"{location}  {assessment.source}"
    return f"{rank:>4}  {priority:<9} {sanitize(location)}\n      {' '.join(words)}"


def _highlight(text: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return sanitize(text)
    return typer.style(sanitize(text), fg=typer.colors.RED, bold=True)
