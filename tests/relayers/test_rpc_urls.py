"""A relayer's own RPC URLs: what is accepted, what is shown of them, and how they are stored."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ValidationError

from relayer_service.net.addresses import mask
from relayers.models import Relayer
from relayers.serializers.relayers import RpcUrlsField
from tests.relayers.factories import relayer

URL = "https://rpc.example.com"
NO_URL = "an absolute http or https URL is required"
NO_WEIGHT = "a whole number from 0 to 100 is required"


def faults(rpc_urls: Any) -> Any:
    """Return the faults of RPC URLs."""
    try:
        RpcUrlsField().run_validation(rpc_urls)
    except ValidationError as error:
        return error.detail
    return {}


@pytest.mark.parametrize("weight", [0, 1, 100])
def test_a_url_and_its_weight_are_kept(weight: int) -> None:
    rpc_urls = [{"url": f"{URL}/v2/KEY?a=b", "weight": weight}]
    assert RpcUrlsField().run_validation(rpc_urls) == rpc_urls


def test_a_weight_that_is_left_out_is_100() -> None:
    assert RpcUrlsField().run_validation([{"url": URL}]) == [{"url": URL, "weight": 100}]


@pytest.mark.parametrize("weight", [-1, 101, 1.0, "1", True, [], {}])
def test_another_weight_is_refused(weight: Any) -> None:
    assert faults([{"url": URL, "weight": weight}]) == {0: {"weight": [NO_WEIGHT]}}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8545",
        "http://[::1]:8545/",
        "http://node:8545",
        "https://user:pass@rpc.example.com/v2/KEY?a=b#c",
        "https://bücher.example",
    ],
)
def test_an_absolute_url_is_accepted(url: str) -> None:
    assert faults([{"url": url, "weight": 1}]) == {}


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("rpc.example.com", NO_URL),
        ("/v2/KEY", NO_URL),
        ("//rpc.example.com", NO_URL),
        ("ws://rpc.example.com", NO_URL),
        ("file:///etc/passwd", NO_URL),
        ("https://", NO_URL),
        ("https://:443", NO_URL),
        ("https://rpc.example.com:0", NO_URL),
        ("https://rpc.example.com:65536", NO_URL),
        ("http://0x7f000001", NO_URL),
        ("https://rpc.example.com/a b", "spaces, backslashes and control characters are not allowed in a URL"),
        ("https://rpc.example.com\n", "spaces, backslashes and control characters are not allowed in a URL"),
        ("https://rpc.example.com/" + "a" * 65_536, "at most 65536 characters are allowed"),
        ("", "an empty string is not allowed here"),
        (None, "null is not allowed here"),
        (1, "a string is required"),
    ],
)
def test_another_url_is_refused_with_its_place(url: Any, fault: str) -> None:
    assert faults([{"url": URL}, {"url": url}]) == {1: {"url": [fault]}}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"weight": 1}, {"url": ["this field is required"]}),
        ({"url": URL, "name": "x"}, {"name": ["unknown field"]}),
        (URL, {"non_field_errors": ["an object is required"]}),
    ],
)
def test_another_shape_is_refused(entry: Any, expected: Any) -> None:
    assert faults([entry]) == {0: expected}


def test_fifty_are_the_most() -> None:
    assert faults([{"url": URL}] * 50) == {}
    assert faults([{"url": URL}] * 51)


@pytest.mark.parametrize("value", [None, URL, {}, {"url": URL}, 1])
def test_what_is_no_list_is_refused(value: Any) -> None:
    assert faults(value)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://rpc.example.com", "https://rpc.example.com"),
        ("https://rpc.example.com/", "https://rpc.example.com"),
        ("https://rpc.example.com:8443", "https://rpc.example.com:8443"),
        ("http://[::1]:8545", "http://[::1]:8545"),
        ("https://bücher.example", "https://bücher.example"),
        ("https://KEY@rpc.example.com", "https://rpc.example.com/***"),
        ("https://user:KEY@rpc.example.com:8443/", "https://rpc.example.com:8443/***"),
        ("https://user:K@EY@rpc.example.com", "https://rpc.example.com/***"),
        ("https://@rpc.example.com", "https://rpc.example.com/***"),
        ("https://rpc.example.com/KEY", "https://rpc.example.com/***"),
        ("https://rpc.example.com//KEY", "https://rpc.example.com/***"),
        ("https://rpc.example.com/;KEY", "https://rpc.example.com/***"),
        ("https://rpc.example.com?KEY", "https://rpc.example.com/***"),
        ("https://rpc.example.com/?k=KEY", "https://rpc.example.com/***"),
        ("https://rpc.example.com#KEY", "https://rpc.example.com/***"),
        ("http://user:KEY@[::1]:8545/v2/KEY?k=KEY#KEY", "http://[::1]:8545/***"),
    ],
)
def test_what_may_be_a_key_is_masked(url: str, masked: str) -> None:
    assert mask(url) == masked


SECRETS = st.text(min_size=1).map(lambda text: f"KEY{quote(text, safe='@:/?')}")


@given(user=SECRETS, path=SECRETS, query=SECRETS, fragment=SECRETS)
def test_no_part_of_a_key_is_left_whatever_it_is(user: str, path: str, query: str, fragment: str) -> None:
    # In user info these characters would end it.
    user = quote(user, safe="@:")
    assert mask(f"https://{user}@rpc.example.com/{path}?{query}#{fragment}") == "https://rpc.example.com/***"


@pytest.mark.django_db
def test_urls_are_encrypted_at_rest() -> None:
    rpc_urls = [{"url": f"{URL}/v2/KEY", "weight": 70}, {"url": "https://user:KEY@other.example.com", "weight": 30}]
    relayer(rpc_urls=rpc_urls)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM relayers_relayer")
        (row,) = cursor.fetchall()
    assert not any("KEY" in str(value) for value in row)
    stored = Relayer.objects.get()
    assert stored.custom_rpc_urls == rpc_urls
    assert stored.masked_rpc_urls == [
        {"url": "https://rpc.example.com/***", "weight": 70},
        {"url": "https://other.example.com/***", "weight": 30},
    ]
    assert stored.node_urls() == [(f"{URL}/v2/KEY", 70), ("https://user:KEY@other.example.com", 30)]


@pytest.mark.django_db
def test_without_urls_nothing_is_stored() -> None:
    relayer(rpc_urls=[])
    stored = Relayer.objects.get()
    assert (stored.custom_rpc_urls, stored.masked_rpc_urls) == (None, [])
