"""Paths that hold a key: `/label-studio/DATASET/KEY/…` and `/inception/DATASET/KEY/…`.

Label Studio sends no credentials with the webhook that it registers for a model, and INCEpTION none to a recommender. So
the key is in the address, and must not appear where paths do: in logs, metrics and errors.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from service.contracts.access.roles import ADDRESS_ROLES, Role

ADDRESS_PREFIXES: Final = tuple(f"/{role}/" for role in ADDRESS_ROLES)
# In place of the key, if it is sent as the password of basic authentication. A webhook has none.
NO_KEY: Final = "-"
BASIC_AUTH_OPERATIONS: Final = frozenset({"health", "setup", "predict", "versions"})
HIDDEN: Final = "***"
_KEY: Final = re.compile(r"lw_[A-Za-z0-9_-]+")  # as `generate_key` builds it


class PathKey(NamedTuple):
    """What a path names. `role`: the one that the key must have."""

    role: Role
    dataset: str
    key: str
    operation: str

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """None if the path, without percent-encoding, is not of this form."""
        role = find_address_role(path)
        parts = path.split("/")[2:]
        if role is None or len(parts) != len(cls._fields) - 1:
            return None
        return cls(role, *parts)


def find_address_role(path: str) -> Role | None:
    """The role of the keys that paths like this one hold; None if they hold none."""
    return next((role for role in ADDRESS_ROLES if path.startswith(f"/{role}/")), None)


def hide_key(path: str, raw_path: str) -> str:
    """The path for logs. `raw_path` is still percent-encoded: a decoded path could forge log lines."""
    role = find_address_role(path)
    if role is None:
        return _KEY.sub(HIDDEN, raw_path) if "lw_" in raw_path else raw_path
    dataset, *rest = path.split("/")[2:]
    # Anything after the dataset may be the key, and so may a dataset that stands alone.
    shown = [dataset, HIDDEN, *rest[1:]] if len(rest) > 1 else [HIDDEN] * (1 + len(rest))
    return _KEY.sub(HIDDEN, f"/{role}/" + quote("/".join(shown), safe="/*"))
