"""Labelled sentences to what they came as: writers of the platforms' formats, so that our own readers take them back."""

from __future__ import annotations

from service.formats.back.telling import PLAIN, Telling, came_as

__all__ = ["PLAIN", "Telling", "came_as"]
