"""Reads .npz archives of plain arrays: never pickled objects, which could run code."""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING

import numpy as np

from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def load_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}", field="probs")
    if not zipfile.is_zipfile(path):
        raise DecodeError(f"{path.name} is not an .npz archive")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError) as error:
        raise DecodeError(f"{path.name} can't be read as an .npz of plain arrays: {error}") from error


def check_floats(values: NDArray[np.generic], key: str) -> NDArray[np.float64]:
    if values.ndim != 2 or not np.issubdtype(values.dtype, np.floating):
        raise InvalidInput(f"needs one row of probabilities per word, got {values.dtype} {values.shape}", field=key)
    return values.astype(np.float64)


def check_integers(values: NDArray[np.generic], key: str) -> NDArray[np.intp]:
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise InvalidInput(f"needs a one-dimensional array of integers, got {values.dtype} {values.shape}", field=key)
    return values.astype(np.intp)
