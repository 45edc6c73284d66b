"""The secrets that deliveries are signed with."""

from __future__ import annotations

import pytest

from service.errors import SettingsError
from service.notifications.messages import derive_secret


def test_no_secret_is_derived_from_an_empty_key() -> None:
    """Everybody could sign with it."""
    with pytest.raises(SettingsError, match="LABELWATCH_WEBHOOKS_KEY"):
        derive_secret("", "hook")
