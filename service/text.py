"""Numbers and words as the command line and the report print them."""

from __future__ import annotations

import re

_CONTROL_CHARS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_MIN_SHARE = 0.0001
_SUPERSCRIPT_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def show_control_chars(text: str) -> str:
    """Replaces characters that HTML forbids: control characters by their pictures, others by U+FFFD."""
    return _CONTROL_CHARS.sub(_replace_control_char, text)


def _replace_control_char(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def format_count(number: int) -> str:
    return f"{number:,}"


def format_percent(share: float) -> str:
    """A percentage with enough digits to differ from 0 % and 100 %."""
    if share <= 0 or share >= 1:
        return f"{share:.0%}".replace("%", "\u202f%")
    if share < _MIN_SHARE:
        return "<\u202f0.01\u202f%"
    if share > 1 - _MIN_SHARE:
        return ">\u202f99.99\u202f%"
    digits = 2 if share < 0.01 or share > 0.99 else 1
    return f"{100 * share:.{digits}f}\u202f%"


def format_score(value: float | None) -> str:
    """A score with enough digits to differ from 0 and 1."""
    if value is None:
        return "–"
    if 0 < value < 0.001:
        digits, _, exponent = f"{value:.1e}".partition("e-")
        return f"{digits}\u202f·\u202f10⁻{exponent.lstrip('0').translate(_SUPERSCRIPT_DIGITS)}"
    if 0.999 < value < 1:
        return f"{value:.6f}".rstrip("0")
    return f"{value:.3f}"


def pluralize(number: int, singular: str, plural_form: str | None = None) -> str:
    return f"{format_count(number)} {singular if number == 1 else plural_form or singular + 's'}"
