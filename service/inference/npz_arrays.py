"""Reads .npz archives of plain arrays: never pickled objects, which could run code."""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


MAX_RATIO: Final = 200  # float probabilities pack to a half, numbers of words per sentence to a hundredth
MIN_CHECKED_BYTES: Final = 64 * 1024 * 1024


def load_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}", field="probs")
    if not zipfile.is_zipfile(path):
        raise DecodeError(f"{path.name} is not an .npz archive")
    try:
        _check_ratio(path)
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, MemoryError) as error:
        raise DecodeError(f"{path.name} can't be read as an .npz of plain arrays: {error}") from error


def _check_ratio(path: Path) -> None:
    """Arrays are held in memory. zipfile unpacks no more of an entry than it declares."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    packed = path.stat().st_size
    if unpacked > MIN_CHECKED_BYTES and unpacked > MAX_RATIO * packed:
        raise DecodeError(
            f"{path.name} unpacks to more than {MAX_RATIO} times its size ({packed:,} bytes to {unpacked:,}): "
            "if that is right, write it with np.savez, which does not pack"
        )


def check_floats(values: NDArray[np.generic], key: str) -> NDArray[np.float64]:
    if values.ndim != 2 or not np.issubdtype(values.dtype, np.floating):
        raise InvalidInput(f"needs one row of probabilities per word, got {values.dtype} {values.shape}", field=key)
    return values.astype(np.float64)


def check_integers(values: NDArray[np.generic], key: str) -> NDArray[np.intp]:
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise InvalidInput(f"needs a one-dimensional array of integers, got {values.dtype} {values.shape}", field=key)
    return values.astype(np.intp)
