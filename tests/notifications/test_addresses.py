"""Which URLs a webhook may have, and which addresses are public."""

from __future__ import annotations

import ipaddress

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from notifications.models import validate_webhook_url
from relayer_service.net.addresses import FORBIDDEN, is_allowed, split_http_url, validate_http_url

NOT_A_URL = "an absolute http or https URL is required"
UNPRINTED = "spaces, backslashes and control characters are not allowed in a URL"
BAD_PORT = "the port must be 80, 443 or at least 1024"
BAD_ADDRESS = "private, local and reserved addresses are not allowed"

# With the neighbours of each network that is refused.
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
    168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255
    192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
    2001:200:: 2001:4860:4860::8888 2606:4700::1111 2a00:1450::1
"""
NOT_PUBLIC = """
    0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1
    127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.192 192.0.2.1
    192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.0 192.168.255.255 192.175.48.1 198.18.0.0 198.19.255.255
    198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::1%lo ::7f00:1 ::ffff:8.8.8.8 ::ffff:127.0.0.1 ::ffff:0:127.0.0.1 1::1 64:ff9b::7f00:1
    64:ff9b::8.8.8.8 64:ff9b:1::a00:1 100::1 100:0:0:1::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:10::1 2001:20::1
    2001:db8::1 2002:7f00:1:: 2002:808:808:: 2620:4f:8000::1 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254
    fe80::1 fe80::1%1 fe80::1%lo fec0::1 ff02::1 ff0e::1
"""


@pytest.fixture(autouse=True)
def nothing_opened(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = []


def fault(url: str) -> str:
    """What is said against a URL, or nothing."""
    try:
        validate_webhook_url(url)
    except ValidationError as error:
        return str(error.message)
    return ""


def networks(*names: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(name) for name in names]


def test_public_addresses_alone_are_allowed() -> None:
    assert [address for address in PUBLIC.split() if not is_allowed(address)] == []
    assert [address for address in NOT_PUBLIC.split() if is_allowed(address)] == []
    ends = [str(end) for network in FORBIDDEN for end in (network[0], network[-1])]
    assert [end for end in ends if is_allowed(end)] == []


@given(st.ip_addresses())
def test_no_address_that_python_takes_for_special_is_allowed(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    # Python has 2002::/16 and some others as global: it is only a floor.
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or not address.is_global
    )
    # Two anycast services in 192.0.0.0/24 and 2001::/23 are public to Python; here the whole of these is refused.
    assert not (special and is_allowed(str(address)))


def test_an_opened_network_opens_exactly_what_it_names() -> None:
    for opened, address, expected in [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.0.0.1", True),
        ("10.0.0.0/8", "192.168.0.1", False),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("127.0.0.1/32", "127.0.0.1", True),
        ("127.0.0.1/32", "127.0.0.2", False),
        ("127.0.0.0/8", "::1", False),
        ("::1/128", "::1", True),
        ("::1/128", "127.0.0.1", False),
        ("fd00::/8", "fd12::1%eth0", True),
        ("fd00::/8", "fc00::1", False),
        # Its IPv6 forms are others, and open where they are named themselves.
        *[
            ("10.0.0.0/8", form, False)
            for form in ("::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::")
        ],
        ("::ffff:10.0.0.0/104", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.0/104", "::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.0/104", "10.0.0.1", False),
    ]:
        assert is_allowed(address, networks(opened)) is expected, (opened, address)


GOOD_URLS = [
    *("https://example.com", "http://example.com/", "HTTPS://EXAMPLE.COM/Hook", "https://example.com:443/hook"),
    *("http://example.com:80/hook", "https://example.com:/hook", "https://example.com:1024/hook"),
    *("https://example.com:65535/hook", "http://example.com:443/hook", "https://example.com/user:password@hook"),
    *("https://example.com/hook?token=a%20b&x=%2F#part", "https://example.com/h%C3%B6k", "https://example.com/hök"),
    *("https://bücher.example/hook", "https://xn--bcher-kva.example/hook", "https://example.com./hook"),
    *("https://a_name.example.com/hook", "https://localhost/hook", "https://8.8.8.8/hook", "https://1.example.com/"),
    *("https://[2606:4700::1111]/hook", "https://[2606:4700::1111]:8443/hook", "https://0x7f.example/"),
    "https://example.com/" + "a" * 5000,
]
BAD_URLS = {
    NOT_A_URL: [
        *(
            "",
            "example.com",
            "example.com/hook",
            "//example.com/hook",
            "/hook",
            "http:",
            "http:/example.com",
            "http://",
        ),
        *("http:///hook", "http://:80/", "http://@/", "http://?x", "ftp://example.com/", "file:///etc/passwd"),
        *("javascript:alert(1)", "ws://example.com/", "httpx://example.com/", "http://example.com:0/"),
        *("http://example.com:-1/", "http://example.com:65536/", "http://example.com:99999999999999999999/"),
        *("http://example.com:port/", "http://example.com:٨٠/", "http://[::1", "http://::1]/"),
        *("http://[not-an-address]/", "http://a..example.com/", "http://.example.com/", "http://example。。com/"),
        f"http://{'a' * 64}.example.com/",
        # Forms that a resolver, or a reader of digits and dots in other scripts, takes for an address.
        *(
            "http://2130706433/",
            "http://134744072/",
            "http://017700000001/",
            "http://0x7f000001/",
            "http://0X7F000001/",
        ),
        *("http://0x7f.1/", "http://127.1/", "http://127.0.1/", "http://0177.0.0.1/", "http://127.0.0.1./"),
        *("http://8.8.8.8./", "http://256.256.256.256/", "http://1.2.3.4.5/", "http://0/", "http://example.1/"),
    ],
    UNPRINTED: [
        *(" https://example.com/", "https://example.com/ ", "https://exa mple.com/", "https://example.com/\n"),
        *("https://example.com/a\tb", "https://example.com/\r\nX-Header: 1", "https://example.com/\x00"),
        *(f"https://example.com/{character}" for character in "\x7f\x85\u00a0\u2028\u3000\ud800"),
        *("https://good.example\\@127.0.0.1/", "http:\\\\127.0.0.1/"),
    ],
    BAD_PORT: [
        *(f"http://example.com:{port}/" for port in (1, 22, 25, 53, 79, 81, 442, 444, 1023)),
        "http://127.0.0.1:22/",
    ],
    BAD_ADDRESS: [
        *(
            "http://127.0.0.1/",
            "http://127.0.0.1:6379/",
            "http://10.0.0.1/",
            "http://169.254.169.254/latest/meta-data/",
        ),
        *("http://good.example@127.0.0.1/", "http://127.0.0.1#@good.example/", "http://127.0.0.1?@good.example/"),
        *("http://0.0.0.0/", "http://[::]/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"),
        *("http://[fe80::1%25eth0]/", "http://[fd00:ec2::254]/", "http://127。0。0。1/", "http://127｡0｡0｡1/"),
        *("http://\uff11\uff12\uff17.0.0.1/", "http://①②⑦.⓪.⓪.①/"),
    ],
}


def test_a_url_that_can_be_sent_to_is_accepted_and_another_refused_with_its_fault() -> None:
    assert {url: fault(url) for url in GOOD_URLS} == dict.fromkeys(GOOD_URLS, "")
    for said, urls in BAD_URLS.items():
        assert {url: fault(url) for url in urls} == dict.fromkeys(urls, said)


def test_a_literal_address_in_an_opened_network_is_accepted(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = networks("127.0.0.0/8")
    assert fault("http://127.0.0.1:8080/") == ""
    assert fault("http://127.0.0.1:22/") == BAD_PORT
    assert fault("http://10.0.0.1/") == BAD_ADDRESS


@given(st.text(alphabet="htps:/[]@%.#?0189afx\\\u3002\uff11 -", max_size=30).map("http://".__add__) | st.text())
def test_any_text_is_a_url_or_refused_and_nothing_else(text: str) -> None:
    try:
        parts = split_http_url(text)
    except ValidationError as error:
        assert error.message in (NOT_A_URL, UNPRINTED)
    else:
        assert parts.hostname
        validate_http_url(text)


def test_a_host_that_no_host_can_be_is_refused_before_it_is_encoded() -> None:
    for host in ("é" * 500_000, "é." * 300_000):
        with pytest.raises(ValidationError):
            validate_webhook_url(f"https://{host}/")
    for url in ("http://[::1]SECRET/", "http://h;k=SECRET/", "http://*/", "http://<b>/", "http://a[b]/"):
        with pytest.raises(ValidationError):
            split_http_url(url)


METADATA = [
    *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fe80::1%eth0"),
    *("fd20:ce::254", "fd00:42::42", "fd00:100::100:200", "fd00:a9fe:a9fe::1", "fd00:c1::a9fe:a9fe"),
    *("::ffff:169.254.169.254", "::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::a9fe:a9fe"),
    # Local NAT64 with a prefix of 48, 56, 64 and 96 bits.
    *("64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:aaa9:fe:a9fe::", "64:ff9b:1:aaaa:a9:fea9:fe00:0"),
    *("64:ff9b:1:aaaa:bbbb:cccc:169.254.169.254", "64:ff9b:1::100.100.100.200"),
    "2002:a9fe:a9fe:1::1",
    # Teredo, with the address as its server, and as its client with every bit turned.
    *("2001:0:a9fe:a9fe::", "2001:0:808:808:8000:63bf:5601:5601"),
]
NO_METADATA = [
    *("127.0.0.1", "10.0.0.1", "::1", "8.8.8.8", "2606:4700::1111", "fd12::1", "::ffff:0:10.0.0.1"),
    *("64:ff9b:1::10.0.0.1", "2002:a00:1::", "2001:0:808:808:8000:63bf:f7f7:f7f7"),
]


def test_metadata_alone_is_refused_in_every_form_whatever_is_opened() -> None:
    opened = networks("0.0.0.0/0", "::/0")
    assert [address for address in METADATA if is_allowed(address, opened)] == []
    assert [address for address in NO_METADATA if not is_allowed(address, opened)] == []
