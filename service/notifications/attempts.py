"""What attempts to deliver notifications say about an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from service.notifications.client import GONE
from service.notifications.state import clear_problems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from service.contracts.notification import EndpointStatus, Notification
    from service.notifications.client import DeliveryResult

DISABLE_AFTER: Final = timedelta(days=3)
DELIVERY_TIME_PRECISION: Final = timedelta(minutes=1)  # not a record for every delivery


@dataclass(frozen=True, slots=True)
class Attempt:
    notification: Notification
    result: DeliveryResult


def update_status(before: EndpointStatus, results: Sequence[DeliveryResult], now: datetime) -> EndpointStatus:
    """The status after these results. An endpoint that is gone, or that has failed for days, is disabled."""
    status = clear_problems(before)
    last = before.last_delivered_at
    is_delivered = any(result.is_delivered for result in results)
    if is_delivered and (last is None or now - last >= DELIVERY_TIME_PRECISION):
        status = status.model_copy(update={"last_delivered_at": now})
    if results and not is_delivered:
        since = before.failing_since or now
        is_gone = any(result.status == GONE for result in results)
        disabled = now if is_gone or now - since >= DISABLE_AFTER else None
        update = {"failing_since": since, "last_error": results[-1].problem, "disabled_at": disabled}
        status = status.model_copy(update=update)
    return status
