"""The text of a key, and its hash. Only the hash is stored."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

KEY_PREFIX: Final = "lw_"


def hash_key(key: str) -> str:
    """SHA-256 is enough: keys are 256 random bits, so a slow password hash would add nothing."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def generate_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)
