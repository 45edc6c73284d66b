"""Paths that hold a key: `/label-studio/DATASET/KEY/…`.

Label Studio sends no credentials with the webhook that it registers for a model. So the key is in the model's address,
and must not appear where paths do: in logs, metrics and errors.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self
from urllib.parse import quote

LABEL_STUDIO_PREFIX: Final = "/label-studio/"
# In place of the key, if it is sent as the password of basic authentication. A webhook has none.
NO_KEY: Final = "-"
BASIC_AUTH_OPERATIONS: Final = frozenset({"health", "setup", "predict", "versions"})
HIDDEN: Final = "***"
_KEY: Final = re.compile(r"lw_[A-Za-z0-9_-]+")  # as `generate_key` builds it


class PathKey(NamedTuple):
    """The dataset, key and operation that a path names."""

    dataset: str
    key: str
    operation: str

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """None if the path, without percent-encoding, is not of this form."""
        parts = path.removeprefix(LABEL_STUDIO_PREFIX).split("/")
        if not path.startswith(LABEL_STUDIO_PREFIX) or len(parts) != len(cls._fields):
            return None
        return cls(*parts)


def hide_key(path: str, raw_path: str) -> str:
    """The path for logs. `raw_path` is still percent-encoded: a decoded path could forge log lines."""
    if not path.startswith(LABEL_STUDIO_PREFIX):
        return _KEY.sub(HIDDEN, raw_path) if "lw_" in raw_path else raw_path
    dataset, *rest = path.removeprefix(LABEL_STUDIO_PREFIX).split("/")
    # Anything after the dataset may be the key, and so may a dataset that stands alone.
    shown = [dataset, HIDDEN, *rest[1:]] if len(rest) > 1 else [HIDDEN] * (1 + len(rest))
    return _KEY.sub(HIDDEN, LABEL_STUDIO_PREFIX + quote("/".join(shown), safe="/*"))
