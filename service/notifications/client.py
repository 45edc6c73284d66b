"""Sends one notification: no redirects, a deadline for everything together, and a bounded answer."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput
from service.notifications.addresses import parse_url, resolve_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.notifications.addresses import Target

MAX_ANSWER_BYTES: Final = 16_384  # of which nothing is used: the status decides
GONE: Final = 410


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """`status` is None without an answer. `problem` is None for a success."""

    status: int | None
    problem: str | None = None

    @property
    def is_delivered(self) -> bool:
        return self.problem is None


class WebhookClient:
    """Any thread may use it. Proxies of the environment are not used: the address is checked here."""

    def __init__(
        self,
        *,
        allowed_hosts: frozenset[str] = frozenset(),
        timeout_s: float = 10.0,
        settings_owner: str = "the service",
    ) -> None:
        """`settings_owner`: whose `allowed_hosts` they are. The shell of a command may have others than the service."""
        self.allowed_hosts = allowed_hosts
        self._settings_owner = settings_owner
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context()

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryResult:
        deadline = time.monotonic() + self._timeout_s
        try:
            target = parse_url(url, self.allowed_hosts)
            connection = self._connect(target, deadline)
        except InvalidInput as error:
            problem = f"the settings of {self._settings_owner} refuse the address: {error.problem}"
            return DeliveryResult(None, problem)
        except OSError as error:
            return DeliveryResult(None, f"no connection: {error}")
        expired = threading.Event()
        # A receiver that sends a byte now and then would never exceed a time-out of the socket.
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, (connection, expired))
        timer.daemon = True
        timer.start()
        try:
            result = self._exchange(target, connection, headers, body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            result = DeliveryResult(None, f"the answer can't be read: {error!r}"[:300])
        finally:
            timer.cancel()
            connection.close()
        # Half an answer, which ended because the time was up, is none.
        return DeliveryResult(None, f"no answer within {self._timeout_s:g} s") if expired.is_set() else result

    def _connect(self, target: Target, deadline: float) -> socket.socket:
        """Connects to an address that was checked, and to no other."""
        error: OSError = OSError(f"{target.host} has no address")
        for address in resolve_target(target, self.allowed_hosts):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(f"no connection within {self._timeout_s:g} s")
            try:
                raw = socket.create_connection((address, target.port), timeout=remaining)
            except OSError as failure:
                error = failure
                continue
            try:
                raw.settimeout(max(0.01, deadline - time.monotonic()))
                return self._tls.wrap_socket(raw, server_hostname=target.host) if target.scheme == "https" else raw
            except OSError:
                raw.close()
                raise
        raise error

    def _exchange(
        self, target: Target, connection: socket.socket, headers: Mapping[str, str], body: bytes
    ) -> DeliveryResult:
        client = http.client.HTTPConnection(target.host, target.port)
        client.sock = connection
        client.request("POST", target.path, body, {**headers, "Connection": "close"})
        response = client.getresponse()
        response.read(MAX_ANSWER_BYTES)
        if 200 <= response.status < 300:
            return DeliveryResult(response.status)
        if 300 <= response.status < 400:
            return DeliveryResult(
                response.status, f"answered {response.status}: redirects are not followed, give the final address"
            )
        return DeliveryResult(response.status, f"answered {response.status}")


def _shut_down(connection: socket.socket, expired: threading.Event) -> None:
    expired.set()
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
