"""Keys of the API, as the keys topic holds them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, StrictStr

from service.contracts.access.roles import KEY_NAME_PATTERN, Role
from service.contracts.base import DatasetName, Message


class StoredKey(Message):
    """A key of a person or program. Only its hash is stored."""

    name: StrictStr = Field(pattern=f"^{KEY_NAME_PATTERN}$", description="Who the key is for")
    role: Role
    digest: StrictStr = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the key")
    datasets: tuple[DatasetName, ...] = Field(default=(), description="The only datasets it is for; none: all")
    created_at: datetime = Field(description="When this key was created; a rotation creates a new one")
    created_by: StrictStr = Field(max_length=128)
    revoked_at: datetime | None = Field(default=None, description="Since when it is not valid any more")
    revoked_by: StrictStr | None = Field(default=None, max_length=128)

    @property
    def is_active(self) -> bool:
        return self.revoked_at is None
