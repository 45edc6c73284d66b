"""Parses JSON strictly."""

from __future__ import annotations

from pydantic_core import from_json

from service.contracts.validation import to_decode_error


def parse_json(raw: bytes) -> object:
    """Strict JSON: no NaN, no lone surrogate, nothing after the value. Raises `DecodeError`."""
    try:
        value: object = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise to_decode_error(raw, error) from None
    return value
