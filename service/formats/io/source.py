"""Opens a path, `-` or a binary stream as text, and reads it in chunks."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zlib
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAD_BYTES: Final = 64 * 1024
# A sentence of 5,000 words is far shorter. Without a limit a file without line ends would be read whole.
MAX_LINE: Final = 8 * 1024 * 1024
# Text packs to a third or a tenth of its size, an indented export to a thirtieth; gzip can pack to a thousandth.
MAX_GZIP_RATIO: Final = 100
MIN_CHECKED_BYTES: Final = 8 * 1024 * 1024  # of unpacked data: a short file may repeat itself
MAX_UNPACKED_BYTES: Final = 20_000_000_000

_ESCAPED_BYTES: Final = re.compile("[\udc80-\udcff]")

_MULTILINE_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*(?:\{|\n|$)|\{\s*(?:\n|$))")

SourceLike: TypeAlias = Path | str | BinaryIO


@dataclass(frozen=True, slots=True)
class TextSource:
    """An open text source: its name for messages, its first bytes for detection, and its lines."""

    name: str
    head: str
    encoding: str
    stream: io.TextIOWrapper

    def read_lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends."""
        for number, line in enumerate(self.read_raw_lines(), start=1):
            yield number, line.rstrip("\r\n")

    def read_raw_lines(self) -> Iterator[str]:
        """Lines with their ends. A line over the limit is an error of the whole file."""
        number = 0
        while line := self.stream.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE and not line.endswith(("\n", "\r")):
                raise DecodeError(
                    f"{self.name}:{number}: the line is longer than {MAX_LINE:,} characters: is the file text?"
                )
            yield line

    def format_location(self, line: int) -> str:
        return f"{self.name}:{line}"


class _PeekableStream(io.RawIOBase):
    """A stream, also a pipe, whose first bytes can be inspected before it is read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._pending = b""
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def peek(self, is_enough: Callable[[bytes], bool]) -> bytes:
        while len(self._pending) < HEAD_BYTES and not is_enough(self._pending):
            chunk = self._read_available(HEAD_BYTES)
            if not chunk:
                break
            self._pending += chunk
        return self._pending

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer is 3.12
        size = len(buffer)
        chunk = self._pending[:size] or self._read_available(size)
        self._pending = self._pending[len(chunk) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _read_available(self, size: int) -> bytes:
        # read1 returns what a pipe holds now; read would wait until `size` bytes have arrived.
        read1 = getattr(self._stream, "read1", None)
        chunk: bytes = read1(size) if read1 is not None else self._stream.read(size)
        self.bytes_read += len(chunk)
        return chunk


class _UnpackedStream(_PeekableStream):
    """The data of a gzip file. It ends with an error if the file unpacks to far more than its size."""

    def __init__(self, packed: _PeekableStream, name: str) -> None:
        super().__init__(gzip.GzipFile(fileobj=io.BufferedReader(packed)))  # type: ignore[arg-type]  # it is a BinaryIO in all but name
        self._packed = packed
        self._name = name

    def _read_available(self, size: int) -> bytes:
        chunk = super()._read_available(size)
        unpacked, packed = self.bytes_read, self._packed.bytes_read
        if unpacked > MAX_UNPACKED_BYTES:
            raise DecodeError(
                f"{self._name}: the gzip file unpacks to more than {MAX_UNPACKED_BYTES:,} bytes: split it, or unpack it first"
            )
        if unpacked > MIN_CHECKED_BYTES and unpacked > MAX_GZIP_RATIO * packed:
            raise DecodeError(
                f"{self._name}: the gzip file unpacks to more than {MAX_GZIP_RATIO} times its size "
                f"({packed:,} bytes to over {unpacked:,}): if that is right, unpack it first"
            )
        return chunk


@contextmanager
def open_source(source: SourceLike, *, encoding: str | None = None) -> Iterator[TextSource]:
    """Opens a source, gzip or not. Any error while it is read is an InvalidInput that names the source."""
    name = get_source_name(source)
    try:
        with ExitStack() as stack:
            stream: BinaryIO
            if source == "-":
                stream = sys.stdin.buffer
            elif isinstance(source, str | Path):
                stream = stack.enter_context(Path(source).open("rb"))
            else:
                stream = source
            raw = _PeekableStream(stream)
            if raw.peek(lambda head: len(head) >= 2)[:2] == b"\x1f\x8b":
                raw = _UnpackedStream(raw, name)
            head = raw.peek(_has_data_line)
            chosen = _choose_encoding(encoding, head, name)
            # newline="" keeps line ends as they are, which csv needs; `read_lines` strips them.
            text = io.TextIOWrapper(io.BufferedReader(raw), encoding=chosen, errors="surrogateescape", newline="")
            try:
                yield TextSource(name, head.decode(chosen, errors="replace"), _get_encoding_name(chosen), text)
            finally:
                with suppress(ValueError):  # closed already: a reader that was not read to its end is collected
                    text.detach()  # the caller's stream stays open
    except UnicodeDecodeError as error:
        raise DecodeError(f"{name}: not {error.encoding}: name the file's encoding with --encoding") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DecodeError(f"{name}: the gzip file is damaged or cut short ({error})") from None
    except OSError as error:
        raise InvalidInput(f"{name}: can't be read: {error.strerror or error}") from None


def get_source_name(source: SourceLike) -> str:
    if source == "-":
        return "<stdin>"
    return to_printable(str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "<stream>")))


def to_printable(name: str) -> str:
    """Escapes bytes of a file name that are not UTF-8, because messages and sentences hold the name as text."""
    escaped = _ESCAPED_BYTES.sub(lambda byte: f"\\x{ord(byte.group()) - 0xDC00:02x}", name)
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def _has_data_line(head: bytes) -> bool:
    """Whether the head is long enough for detection; reading more would only delay a slow pipe."""
    if _MULTILINE_JSON.match(head):
        return False  # its first line holds no key
    *complete, _partial = head.split(b"\n")
    return any(line.strip() and not line.lstrip(codecs.BOM_UTF8).startswith((b"#", b"-DOCSTART-")) for line in complete)


def _choose_encoding(requested: str | None, head: bytes, name: str) -> str:
    if requested is not None:
        try:
            codecs.lookup(requested)
        except LookupError:
            raise InvalidInput(
                f"--encoding {requested}: there is no such encoding; try utf-8, cp1252 or latin-1"
            ) from None
        return "utf-8-sig" if requested.lower().replace("_", "-") in {"utf-8", "utf8"} else requested
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head:
        raise DecodeError(f"{name}: looks like a binary file: give a text file, or name its encoding with --encoding")
    return "utf-8-sig"


def _get_encoding_name(encoding: str) -> str:
    return "UTF-8" if encoding == "utf-8-sig" else encoding
