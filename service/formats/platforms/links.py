"""Links from a sentence back to its task or record on the platform."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from service.errors import InvalidInput


def quote_for_url(name: str) -> str:
    """Percent-encodes a name. Lone surrogates become `?`; validation of the sentence rejects them."""
    return quote(name, safe="", errors="replace")


def normalize_base_url(url: str) -> str:
    """The platform's address without a trailing slash. Only http and https are allowed, because browsers follow it."""
    parts = urlsplit(url)  # which drops line breaks
    if any(character.isspace() or not character.isprintable() for character in url):
        raise InvalidInput(f"{url!r} has white space in it: leave it out", field="base_url")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidInput(f"{url!r} is not an address such as https://annotate.example.org", field="base_url")
    return url.rstrip("/")
