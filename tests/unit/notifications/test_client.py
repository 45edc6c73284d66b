"""One delivery to a receiver that behaves, and to receivers that don't."""

from __future__ import annotations

import socket

import pytest

from service.errors import InvalidInput
from service.notifications.addresses import AddressRefused, is_public, parse_url, resolve_target
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
    """Also an endpoint that an older release has accepted."""
    with WebhookReceiver() as receiver:
        url = f"https://{host}:{receiver.port}/"
        result = WebhookClient(allowed_hosts=frozenset({"example.com"})).send(url, {}, b"{}")
    assert str(result.problem).startswith("the settings of the service refuse the address: ")
    assert "is not a public address" in str(result.problem)
    assert "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS" in str(result.problem)
    assert receiver.requests == []


def test_a_name_at_a_private_address_is_refused_when_it_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [entry])
    target = parse_url("https://example.com/hook", frozenset())
    with pytest.raises(AddressRefused, match=r"example.com is at 10.0.0.1, which is not a public address"):
        resolve_target(target, frozenset())
    assert resolve_target(target, frozenset({"example.com"})) == ["10.0.0.1"]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[fe80::1%25eth0]",
    ],
)
def test_an_address_that_is_not_public_is_refused_without_resolving_it(host: str) -> None:
    with pytest.raises(AddressRefused, match="is not a public address") as caught:
        parse_url(f"https://{host}/hook", frozenset({"hooks.internal"}))
    assert caught.value.field == "url"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1"])
def test_an_address_that_is_allowed_by_name_is_accepted(host: str) -> None:
    name = host.strip("[]")
    assert parse_url(f"https://{host}/hook", frozenset({name})).host == name


@pytest.mark.parametrize(
    "host", ["93.184.216.34", "[2606:2800:220:1::1]", "example.com", "localhost.example.com", "0x.org"]
)
def test_public_addresses_and_names_are_accepted(host: str) -> None:
    """Whether a name leads to a public address is checked when a delivery starts."""
    assert parse_url(f"https://{host}/hook", frozenset()).host == host.strip("[]")


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
        ("ftp://example.com/", "use https"),
        ("example.com/hook", "it is not a URL"),
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
