"""Whether the variables that a deployment sets are settings that this version has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.settings import ENV_PREFIX, Settings, find_unknown_variables, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_settings(variables: Mapping[str, str]) -> Settings:
    """As a container with these would read them; files it names need not be here."""
    ours = {name: value for name, value in variables.items() if name.startswith(ENV_PREFIX)}
    assert find_unknown_variables(ours) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pathlib.Path.is_file", lambda _: True)
        for name, value in ours.items():
            patch.setenv(name, value)
        return read_settings()
