"""What the API's settings hold for each annotation platform: its address and the secrets of its webhook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.formats import FORMATS

if TYPE_CHECKING:
    from service.formats import Format
    from service.settings import ApiSettings

_WEBHOOKS_PREFIX: Final = "/v1/webhooks/"


def get_platform_url(settings: ApiSettings, form: Format) -> str | None:
    """The platform's address, for links from a sentence back to its task."""
    url: str | None = getattr(settings, form.url_setting) if form.url_setting is not None else None
    return url


def get_webhook_path(form: Format) -> str:
    return f"{_WEBHOOKS_PREFIX}{form.name}"


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """Signs the deliveries of a platform, for one dataset of ours or (None) for any."""

    secret: bytes
    dataset: str | None


def parse_webhook_secrets(settings: ApiSettings, form: Format) -> list[WebhookSecret]:
    """The secrets that sign the platform's deliveries; empty if none is set or the platform does not sign."""
    if form.webhook is None or form.webhook.signature is None:
        return []
    signature = form.webhook.signature
    entries = [entry.rpartition(":") for entry in settings.list_secrets(signature.secrets_setting)]
    return [WebhookSecret(signature.parse_secret(secret), dataset or None) for dataset, _, secret in entries]


def list_signed_paths(settings: ApiSettings) -> frozenset[str]:
    """Paths of webhooks that check a signature instead of a key, because their platform cannot send a key."""
    return frozenset(get_webhook_path(form) for form in FORMATS.values() if parse_webhook_secrets(settings, form))
