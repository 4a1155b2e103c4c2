"""Targets that nothing may be sent to: each is tried for real, and nothing connects to it."""

from __future__ import annotations

import ipaddress
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from notifications.delivery import posting
from relayer_service.net import outgoing
from tests.notifications.factories import attempt, make_delivery, send
from tests.notifications.receivers import Receiver, answer, in_turn, receiver

NOT_ALLOWED = "The address or port is not allowed."
NOT_USABLE = "The URL is not valid."
NOT_CONNECTED = "Connection failed."

# What the name server of these tests says; a name that has several answers gives one after the other.
NAMES: dict[str, list[list[str]]] = {
    "loopback.example": [["127.0.0.1"]],
    "loopback6.example": [["::1"]],
    "metadata.example": [["169.254.169.254"]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "private.example": [["10.0.0.1", "192.168.0.1", "fd00::1"]],
    "public-first.example": [["8.8.8.8", "127.0.0.1"]],
    "rebinding.example": [["8.8.8.8"], ["127.0.0.1"]],
    "localhost": [["127.0.0.1", "::1"]],
    "localhost.": [["127.0.0.1"]],
    "xn--bcher-kva.example": [["127.0.0.1"]],
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {name: list(said) for name, said in NAMES.items()}
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        if host in answers:
            said = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
            return [entry for address in said for entry in numeric(address, port)]
        return numeric(host, port)

    def numeric(host: str, port: int) -> list[Any]:
        # Reads every form of an address that the system reads, and asks nobody.
        return real(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were connected to; only this machine answers."""
    addresses: list[str] = []
    real = BaseSelectorEventLoop.sock_connect

    async def sock_connect(loop: BaseSelectorEventLoop, sock: socket.socket, address: Any) -> None:
        addresses.append(address[0])
        if not ipaddress.ip_address(address[0]).is_loopback:
            raise ConnectionRefusedError(111, "this is a test")
        await real(loop, sock, address)

    monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", sock_connect)
    return addresses


@pytest.fixture
def victim() -> Iterator[Receiver]:
    """A service of this machine that nobody may reach."""
    with receiver(answer(200, b"a secret of this machine")) as server:
        yield server


def with_port(url: str, port: int) -> str:
    return url.replace("PORT", str(port))


FORBIDDEN = {
    NOT_ALLOWED: [
        *("http://127.0.0.1:PORT/", "https://127.0.0.1:PORT/", "http://127.127.127.127:PORT/"),
        *("http://0.0.0.0:PORT/", "http://0x7f000001:PORT/", "http://0X7F000001:PORT/", "http://0x7f.0.0.1:PORT/"),
        *("http://0x7f.1:PORT/", "http://0x7f.0x0.0x0.0x1:PORT/", "http://127\u30020\u30020\u30021:PORT/"),
        *("http://127\uff610\uff610\uff611:PORT/", "http://127\uff0e0\uff0e0\uff0e1:PORT/"),
        *("http://\uff11\uff12\uff17.0.0.1:PORT/", "http://①②⑦.⓪.⓪.①:PORT/", "http://good.example@127.0.0.1:PORT/"),
        *("http://good.example:80@127.0.0.1:PORT/", "http://127.0.0.1:PORT#@good.example/"),
        *("http://127.0.0.1:PORT?@good.example/", "http://[::1]:PORT/", "http://[0:0:0:0:0:0:0:1]:PORT/"),
        *("http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/", "http://[::1%25lo]:PORT/", "http://[::]:PORT/"),
        *("http://[::127.0.0.1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://[::ffff:7f00:1]:PORT/"),
        *("http://[::ffff:0:127.0.0.1]:PORT/", "http://[64:ff9b::127.0.0.1]:PORT/"),
        *("http://[64:ff9b:1::127.0.0.1]:PORT/", "http://[2002:7f00:1::]:PORT/"),
        *("http://[2001:0:7f00:1::80ff:fffe]:PORT/", "http://[fe80::1]:PORT/", "http://[fe80::1%25eth0]:PORT/"),
        *("http://[fec0::1]:PORT/", "http://[ff02::1]:PORT/", "http://[4000::1]:PORT/", "http://localhost:PORT/"),
        *("http://LOCALHOST:PORT/", "http://localhost.:PORT/", "http://loopback.example:PORT/"),
        *("http://loopback6.example:PORT/", "http://mapped.example:PORT/", "http://private.example:PORT/"),
        *("http://metadata.example/", "http://bücher.example:PORT/", "http://10.0.0.1/", "http://172.16.0.1/"),
        *("http://192.168.0.1/", "http://100.64.0.1/", "http://169.254.169.254/latest/meta-data/"),
        *("http://0xa9fea9fe/latest/meta-data/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/"),
        *("http://168.63.129.16/", "http://100.100.100.200/", "http://192.0.0.192/", "http://224.0.0.1/"),
        *("http://240.0.0.1/", "http://255.255.255.255/", "http://127.0.0.1:22/", "http://127.0.0.1:6379/"),
        *("http://8.8.8.8:22/", "http://8.8.8.8:25/", "https://8.8.8.8:1023/", "http://[2606:4700::1111]:53/"),
    ],
    NOT_USABLE: [
        *("http://0:PORT/", "http://127.1:PORT/", "http://127.0.1:PORT/", "http://2130706433:PORT/"),
        *("http://017700000001:PORT/", "http://0177.0.0.1:PORT/", "http://0177.0000.0000.0001:PORT/"),
        *("http://127.0.0.1.:PORT/", "http://127.0.0.1:PORT\\@good.example/"),
        "http://2852039166/latest/meta-data/",
    ],
}


@pytest.mark.parametrize("said", FORBIDDEN)
def test_nothing_is_sent_to_a_forbidden_target(
    said: str, settings: Settings, victim: Receiver, connected: list[str]
) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = []
    urls = [with_port(url, victim.port) for url in FORBIDDEN[said]]
    outcomes = send(*(make_delivery(url) for url in urls))
    # The words are always the same: they tell nothing of an address, and nothing of what listens there.
    found = {url: (each.response_code, each.answer, each.error) for url, each in zip(urls, outcomes, strict=True)}
    assert found == dict.fromkeys(urls, (None, "", said))
    assert connected == []
    assert victim.connections == 0


def test_what_is_refused_would_have_been_reached(victim: Receiver, settings: Settings, connected: list[str]) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    for host in ("127.0.0.1", "0x7f000001", "127\u30020\u30020\u30021", "loopback.example"):
        assert attempt(f"http://{host}:{victim.port}/").answer == "a secret of this machine"
    assert connected == ["127.0.0.1"] * 4


def test_an_ipv6_form_of_an_opened_network_is_not_reached(
    victim: Receiver, settings: Settings, connected: list[str]
) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    outcomes = [attempt(f"http://{host}:{victim.port}/") for host in ("[::ffff:127.0.0.1]", "mapped.example")]
    assert [outcome.error for outcome in outcomes] == [NOT_ALLOWED, NOT_ALLOWED]
    assert connected == []


def test_a_name_that_leads_elsewhere_at_the_second_attempt_is_refused_there(
    victim: Receiver, settings: Settings, connected: list[str]
) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = []
    url = f"http://rebinding.example:{victim.port}/"
    assert [attempt(url).error for _ in range(3)] == [NOT_CONNECTED, NOT_ALLOWED, NOT_ALLOWED]
    assert connected == ["8.8.8.8"]
    assert victim.connections == 0


def test_a_name_with_a_public_and_a_private_address_leads_only_to_the_public_one(
    victim: Receiver, settings: Settings, connected: list[str]
) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = []
    outcome = attempt(f"http://public-first.example:{victim.port}/")
    assert (outcome.response_code, outcome.answer) == (None, "")
    assert set(connected) == {"8.8.8.8"}
    assert victim.connections == 0


def test_a_redirect_is_not_followed(settings: Settings, victim: Receiver, connected: list[str]) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    statuses = [301, 302, 303, 307, 308]
    metadata = "http://169.254.169.254/latest/meta-data/"
    for location in (metadata, f"http://127.0.0.1:{victim.port}/", "//[::1]/"):
        answers = [answer(status, headers={"Location": location}) for status in statuses]
        with receiver(in_turn(*answers)) as server:
            outcomes = send(*(make_delivery(server.url) for _ in statuses))
        assert [(each.response_code, each.error) for each in outcomes] == [
            (status, f"Returned HTTP {status}.") for status in statuses
        ]
        assert len(server.requests) == len(statuses)
    assert set(connected) == {"127.0.0.1"}
    assert victim.connections == 0


def test_a_target_is_checked_at_each_attempt(victim: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    assert attempt(victim.url).succeeded
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = []
    assert attempt(victim.url).error == NOT_ALLOWED


def test_a_proxy_of_the_environment_is_not_used(
    victim: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    with receiver() as target:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{victim.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        outcome = attempt(target.url)
    assert outcome.response_code == 200
    assert len(target.requests) == 1
    assert victim.connections == 0


def test_no_socket_is_made_for_a_port_that_is_not_allowed() -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("8.8.8.8", 22))
    with pytest.raises(outgoing.ForbiddenAddress):
        outgoing.guarded_socket(posting.may_connect, info)


def test_a_forbidden_target_in_a_session_does_not_spoil_the_next_one(settings: Settings, connected: list[str]) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    with receiver() as server:
        outcomes = send(make_delivery("http://10.0.0.1/"), make_delivery(server.url), make_delivery("http://[::1]/"))
    assert [outcome.response_code for outcome in outcomes] == [None, 200, None]
    assert connected == ["127.0.0.1"]
