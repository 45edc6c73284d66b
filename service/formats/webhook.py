"""What a platform's entry says about its webhook: the query of the route, the conversion, the signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from service.contracts import DatasetName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from service.formats.platforms.events import ConvertedEvent
    from service.formats.records import ReadOptions


class WebhookQuery(BaseModel):
    """The query parameters of a webhook's route. Platforms add their own."""

    model_config = ConfigDict(extra="forbid")

    dataset: DatasetName = Field(default="default", description="Dataset of the annotations: give each project its own")
    field: str | None = Field(
        default=None, max_length=256, description="Field of the text, if the project does not name it"
    )

    @property
    def label(self) -> str | None:
        """The control or question that holds the spans."""
        return None


QueryT = TypeVar("QueryT", bound=WebhookQuery)


class VerifiedWebhook(NamedTuple):
    """A delivery with a valid signature. `late_reason` says why it may be a replay by somebody else."""

    id: str
    late_reason: str | None


class SignatureVerifier(Protocol):
    def __call__(
        self, body: bytes, headers: Mapping[str, str], secrets: Sequence[bytes], *, now: datetime
    ) -> VerifiedWebhook: ...


@dataclass(frozen=True, slots=True)
class WebhookSignature:
    """How a platform signs its deliveries. `secrets_setting` is the API setting with the secrets.

    Each delivery has its id in `id_header`: a repeated one is not ingested twice.
    """

    secrets_setting: str
    parse_secret: Callable[[str], bytes]
    verify: SignatureVerifier
    id_header: str
    timestamp_header: str


@dataclass(frozen=True, slots=True)
class Webhook(Generic[QueryT]):
    """The webhook of a platform. `summary`, `description` and `example` are those of its route in OpenAPI.

    `event_field`: the field of an event that says what happened.
    """

    summary: str
    description: str
    example: Mapping[str, Any]
    event_field: str
    query: type[QueryT]
    convert: Callable[[Mapping[str, Any], QueryT, datetime, ReadOptions], ConvertedEvent]
    signature: WebhookSignature | None = None
