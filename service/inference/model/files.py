"""The files of a model folder: JSON files, digests, and the data files that a graph refers to."""

from __future__ import annotations

import hashlib
import json
import mmap
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from service.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# An ONNX graph names an external file of weights as the entry ("location", name) of a tensor's external_data.
_LOCATION_KEY = b"\n\x08location"
_EXTERNAL_DATA_LOCATION = re.compile(rb"\n\x08location(?:\x12([\x01-\xff]))?")
_ENTRY_TAG, _VALUE_TAG = 0x6A, 0x12
MAX_NAME_BYTES = 127  # of an external file: one byte holds its length


def read_json_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} can't be read ({error.strerror}): a model folder needs it") from error
    except RecursionError:
        raise ModelError(f"{path} is nested too deeply: copy or export it again") from None
    except ValueError as error:
        raise ModelError(f"{path} is not JSON ({error}): copy or export it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds a {type(value).__name__} where a JSON object is expected: export it again")
    return value


def resolve_inside(folder: Path, name: str, *, referenced_by: str) -> Path:
    """The file `name` of the folder. A name that leads out of the folder is an error: a model may not read other files."""
    relative = PurePosixPath(name.replace("\\", "/"))
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise ModelError(f"{referenced_by} names the file {name!r}: a model's files must lie in its own folder")
    path = folder / relative
    try:
        is_file = path.is_file()
    except OSError as error:  # no name of a file, such as one that is too long
        raise ModelError(f"{referenced_by} names a file that can't be read ({error.strerror})") from error
    if not is_file:
        raise ModelError(f"{path} is missing: {referenced_by} names it; copy or export the folder again")
    return path


def find_external_data(graph: Path) -> list[Path]:
    """The external files with the graph's weights, sorted by name."""
    names: set[str] = set()
    try:
        with graph.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for match in _EXTERNAL_DATA_LOCATION.finditer(content):
                length = match[1]
                name = (
                    _find_value_before_key(content, match.start())
                    if length is None
                    else content[match.end() : match.end() + length[0]]
                )
                if length is not None and length[0] > MAX_NAME_BYTES:
                    raise ModelError(f"{graph} names an external file with more than {MAX_NAME_BYTES} bytes: rename it")
                if name is not None:
                    names.add(name.decode("utf-8", "replace"))
    except (OSError, ValueError) as error:  # ValueError: mmap does not accept an empty file
        raise ModelError(f"{graph} can't be read ({error}): copy or export it again") from error
    return [resolve_inside(graph.parent, name, referenced_by=str(graph)) for name in sorted(names)]


def _find_value_before_key(content: mmap.mmap, key_start: int) -> bytes | None:
    """The value of an entry that has its key last, as protobuf allows; None: it is no entry of external data."""
    for length in range(1, MAX_NAME_BYTES - len(_LOCATION_KEY) - 1):
        start = key_start - length
        if start < 4:
            return None
        entry_bytes = 2 + length + len(_LOCATION_KEY)
        if content[start - 4 : start] == bytes((_ENTRY_TAG, entry_bytes, _VALUE_TAG, length)):
            return content[start:key_start]
    return None


def hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} can't be read ({error.strerror}): check its permissions") from error


def verify_digests(
    folder: Path, files: Iterable[Path], expected: Mapping[str, str], *, described_by: str
) -> dict[Path, str]:
    """The digests of the files. One that differs from what the manifest expects is an error; a file it omits is not."""
    digests = {file: hash_file(file) for file in files}
    for file, digest in digests.items():
        wanted = expected.get(file.relative_to(folder).as_posix(), digest).lower()
        if wanted != digest:
            raise ModelError(
                f"{file} is not the file that {described_by} describes (sha256 {digest[:12]}…, expected {wanted[:12]}…): it "
                "is damaged or of another version; copy the folder again"
            )
    return digests


def hash_json(value: Any) -> str:  # noqa: ANN401 - anything that JSON can hold
    """The digest of a JSON value. The order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
