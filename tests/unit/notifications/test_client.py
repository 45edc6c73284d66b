"""One delivery to a receiver that behaves, and to receivers that don't."""

from __future__ import annotations

import pytest

from service.errors import InvalidInput
from service.notifications.addresses import is_public, parse_url
from service.notifications.client import WebhookClient
from tests.support.webhook_receiver import Behaviour, WebhookReceiver

ALLOWED = frozenset({"127.0.0.1"})


def test_a_delivery_reaches_the_receiver() -> None:
    with WebhookReceiver() as receiver:
        result = WebhookClient(allowed_hosts=ALLOWED).send(receiver.url, {"webhook-id": "msg_1"}, b'{"a":1}')
    assert (result.is_delivered, result.status) == (True, 204)
    [(headers, body)] = receiver.requests
    assert (headers["webhook-id"], headers["host"], body) == ("msg_1", f"127.0.0.1:{receiver.port}", b'{"a":1}')


@pytest.mark.parametrize(
    ("behaviour", "status", "problem"),
    [
        ("fail", 503, "answered 503"),
        ("hang", None, "no answer within 0.5 s"),
        ("drip", None, "no answer within 0.5 s"),
        ("garbage", None, "the answer can't be read"),
    ],
)
def test_receivers_that_do_not_accept(behaviour: Behaviour, status: int | None, problem: str) -> None:
    with WebhookReceiver(behaviour) as receiver:
        result = WebhookClient(allowed_hosts=ALLOWED, timeout_s=0.5).send(receiver.url, {}, b"{}")
    assert (result.is_delivered, result.status) == (False, status)
    assert problem in str(result.problem)


def test_redirects_are_not_followed() -> None:
    with WebhookReceiver() as other, WebhookReceiver("redirect", redirect_to=other.url) as receiver:
        result = WebhookClient(allowed_hosts=ALLOWED).send(receiver.url, {}, b"{}")
    assert result.status == 302
    assert "redirects are not followed" in str(result.problem)
    assert other.requests == []


def test_of_a_huge_answer_only_the_beginning_is_read() -> None:
    with WebhookReceiver("huge") as receiver:
        result = WebhookClient(allowed_hosts=ALLOWED).send(receiver.url, {}, b"{}")
    assert result.is_delivered
    assert receiver.sent_bytes < 50_000_000


def test_nobody_listens() -> None:
    with WebhookReceiver() as receiver:
        pass
    result = WebhookClient(allowed_hosts=ALLOWED).send(receiver.url, {}, b"{}")
    assert "no connection" in str(result.problem)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"])  # noqa: S104
def test_private_addresses_are_refused_unless_allowed_by_name(host: str) -> None:
    """The name is resolved when the connection is opened, so that is where it is checked."""
    with WebhookReceiver() as receiver:
        url = f"https://{host}:{receiver.port}/"
        result = WebhookClient(allowed_hosts=frozenset({"example.com"})).send(url, {}, b"{}")
    assert "is not a public address" in str(result.problem)
    assert "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS" in str(result.problem)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("10.0.0.1", False),
        ("172.16.3.4", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::10.0.0.1", False),
        ("2002:0a00:0001::1", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
    ],
)
def test_public_addresses(address: str, expected: bool) -> None:
    assert is_public(address) is expected


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.com/", "it is not a URL"),
        ("https://", "it is not a URL"),
        ("https://[::1", "it is not a URL"),
        ("https://example.com:99999/", "it is not a URL"),
        ("https://example.com/ x", "it is not a URL"),
        ("https://example.com/\r\nHost: x", "it is not a URL"),
        ("https://user:secret@example.com/", "leave out user and password"),
        ("http://example.com/", "use https, or allow the host by name"),
    ],
)
def test_urls_that_can_not_be_used(url: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        parse_url(url, frozenset())
    assert caught.value.field == "url"
