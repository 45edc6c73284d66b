"""Ids of platforms, as they stand behind the platform's name in a sentence's id."""

from __future__ import annotations


def to_numeric_id(name: str) -> int | str:
    """A sentence's id is text. Where the platform's id was a number, it becomes one again."""
    short = name.isascii() and len(name) < 20
    return int(name) if short and name.removeprefix("-").isdigit() and str(int(name)) == name else name


def to_platform_id(identity: str | None, platform: str) -> int | str | None:
    """The platform's own id; None if the sentence's id is not the platform's."""
    prefix = f"{platform}:"
    if identity is None or not identity.startswith(prefix):
        return None
    return to_numeric_id(identity.removeprefix(prefix))
