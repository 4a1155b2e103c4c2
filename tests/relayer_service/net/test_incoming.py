"""Who is calling: the pure rules, and the middleware that applies them."""

from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from relayer_service.net import incoming
from tokens.writes import issue

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.1", IPv4Address("192.0.2.1")),
        (" 192.0.2.1 ", IPv4Address("192.0.2.1")),
        ("::FFFF:C000:0201", IPv4Address("192.0.2.1")),
        ("2001:DB8::1", IPv6Address("2001:db8::1")),
        ("", None),
        ("unknown", None),
        ("192.0.2.1:8080", None),
        ("[2001:db8::1]", None),
        ("192.0.2.01", None),
        ("1", None),
    ],
)
def test_an_address_is_read_as_what_it_means(text: str, expected: Any) -> None:
    assert incoming.parse_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::1", True),
        ("11.0.0.1", False),
        ("::ffff:11.0.0.1", False),
        ("10.1.2", False),
        ("", False),
    ],
)
def test_a_network_holds_its_addresses_and_no_garbage(text: str, expected: bool) -> None:
    assert incoming.is_within(text, TRUSTED) is expected


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "expected"),
    [
        # A peer that is no proxy is the client, whatever it sends.
        ("203.0.113.9", "192.0.2.1", "203.0.113.9"),
        # A trusted proxy names its client.
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "192.0.2.1", "192.0.2.1"),
        # A chain of trusted proxies is followed to its end.
        ("10.0.0.1", "192.0.2.1, 10.0.0.3, 10.0.0.2", "192.0.2.1"),
        ("10.0.0.1", "192.0.2.1,fd00::2", "192.0.2.1"),
        # The caller controls everything left of the first untrusted address.
        ("10.0.0.1", "10.0.0.9, 192.0.2.1, 10.0.0.2", "192.0.2.1"),
        ("10.0.0.1", "127.0.0.1, garbage, 192.0.2.1", "192.0.2.1"),
        # An address that came as IPv6 is counted as the IPv4 address that it is.
        ("10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        # Of a proxy that names no readable address the client is unknown; the proxy is not it.
        ("10.0.0.1", "192.0.2.1, garbage, 10.0.0.2", ""),
        ("10.0.0.1", "", ""),
        ("10.0.0.1", " , ,", ""),
        # A caller inside the trusted network is itself.
        ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_no_trusted_proxy(
    peer: str, forwarded_for: str, expected: str
) -> None:
    assert incoming.client_address(peer, forwarded_for, TRUSTED) == expected


@given(st.text())
def test_an_untrusted_peer_cannot_change_its_address(forwarded_for: str) -> None:
    assert incoming.client_address("203.0.113.9", forwarded_for, TRUSTED) == "203.0.113.9"


@given(st.text(alphabet="0123456789abcdef:., %x[]é\n"))
def test_nothing_that_a_caller_writes_before_its_address_matters(spoofed: str) -> None:
    assert incoming.client_address("10.0.0.1", f"{spoofed},192.0.2.1", TRUSTED) == "192.0.2.1"


@given(st.one_of(st.text(), st.ip_addresses().map(str)), st.text())
def test_the_client_is_the_peer_or_an_address_or_unknown(peer: str, forwarded_for: str) -> None:
    client = incoming.client_address(peer, forwarded_for, TRUSTED)
    assert client in {peer, ""} or incoming.parse_address(client) is not None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("peer", "forwarded_for", "status"),
    [
        ("10.0.0.1", "192.0.2.1, 10.0.0.2", 200),
        ("10.0.0.1", "192.0.2.1, 198.51.100.7", 401),
        ("203.0.113.9", "192.0.2.1, 10.0.0.1", 401),
        ("::ffff:192.0.2.1", "", 200),
    ],
)
def test_the_service_believes_x_forwarded_for_from_trusted_proxies_alone(
    settings: Any, client: Client, db: None, peer: str, forwarded_for: str, status: int
) -> None:
    settings.TRUSTED_PROXIES = TRUSTED
    settings.METRICS_ALLOW = [ip_network("192.0.2.1/32")]
    response = client.get("/metrics", REMOTE_ADDR=peer, headers={"X-Forwarded-For": forwarded_for})
    assert response.status_code == status
    settings.TRUSTED_PROXIES = []
    forged = client.get("/metrics", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": "192.0.2.1"})
    assert forged.status_code == 401


@pytest.mark.django_db
def test_a_proxy_that_names_no_client_is_on_no_allow_list(
    settings: Any, client: Client, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    settings.TRUSTED_PROXIES = settings.METRICS_ALLOW = [ip_network("10.0.0.0/8")]
    token = issue(name="bound", user=user, allowed_networks=["10.0.0.0/8"])[1]
    bearer = {"Authorization": f"Bearer {token}"}
    unknown = [
        client.get("/metrics", REMOTE_ADDR="10.0.0.1"),
        client.get("/api/v1/items", REMOTE_ADDR="10.0.0.1", headers=bearer),
        client.get("/health", REMOTE_ADDR="10.0.0.1"),
    ]
    assert [response.status_code for response in unknown] == [401, 401, 200]
    lines = [record.__dict__["fields"] for record in caplog.records if record.name == "relayer_service.requests"]
    assert {line["client"] for line in lines} == {"unknown"}
    named = {"X-Forwarded-For": "10.0.0.7"}
    assert client.get("/api/v1/items", REMOTE_ADDR="10.0.0.1", headers=bearer | named).status_code == 200
