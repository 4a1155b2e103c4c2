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
from relayers.serializers.networks import RpcUrlsField
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


def test_urls_and_weights_are_kept() -> None:
    urls = [
        f"{URL}/v2/KEY?a=b",
        "http://127.0.0.1:8545",
        "http://[::1]:8545/",
        "http://node:8545",
        "https://user:pass@rpc.example.com/v2/KEY?a=b#c",
        "https://bücher.example",
    ]
    rpc_urls = [{"url": url, "weight": weight} for url in urls for weight in (0, 1, 100)]
    assert RpcUrlsField().run_validation(rpc_urls) == rpc_urls
    assert RpcUrlsField().run_validation([{"url": URL}, URL]) == [{"url": URL, "weight": 100}] * 2


def test_another_weight_is_refused() -> None:
    weights: list[Any] = [-1, 101, 1.0, "1", True, [], {}]
    found = faults([{"url": URL, "weight": weight} for weight in weights])
    assert found == {index: {"weight": [NO_WEIGHT]} for index in range(len(weights))}


def test_another_url_or_shape_is_refused_with_its_place() -> None:
    unprinted = "spaces, backslashes and control characters are not allowed in a URL"
    texts: dict[Any, str] = {
        "rpc.example.com": NO_URL,
        "/v2/KEY": NO_URL,
        "//rpc.example.com": NO_URL,
        "ws://rpc.example.com": NO_URL,
        "https://": NO_URL,
        "https://:443": NO_URL,
        "https://rpc.example.com:0": NO_URL,
        "http://0x7f000001": NO_URL,
        "https://rpc.example.com/a b": unprinted,
        "https://rpc.example.com\n": unprinted,
        "https://rpc.example.com/" + "a" * 65_536: "at most 65536 characters are allowed",
        "": "an empty string is not allowed here",
        None: "null is not allowed here",
        1: "a string is required",
    }
    entries: list[tuple[Any, dict[str, list[str]]]] = [({"url": url}, {"url": [text]}) for url, text in texts.items()]
    entries += [
        ({"weight": 1}, {"url": ["this field is required"]}),
        ({"url": URL, "name": "x"}, {"name": ["unknown field"]}),
        ([URL], {"non_field_errors": ["an object is required"]}),
        ("rpc.example.com", {"url": [NO_URL]}),
    ]
    found = faults([{"url": URL}, *(entry for entry, _ in entries)])
    assert found == {index: fault for index, (_, fault) in enumerate(entries, 1)}


@pytest.mark.parametrize("value", [None, URL, {}, [{"url": URL}] * 51])
def test_what_is_no_list_of_at_most_fifty_is_refused(value: Any) -> None:
    assert faults(value)
    assert faults([{"url": URL}] * 50) == {}


def test_what_may_be_a_key_is_masked() -> None:
    for url, masked in {
        "https://rpc.example.com": "https://rpc.example.com",
        "https://rpc.example.com/": "https://rpc.example.com",
        "https://rpc.example.com:8443": "https://rpc.example.com:8443",
        "http://[::1]:8545": "http://[::1]:8545",
        "https://bücher.example": "https://bücher.example",
        "https://KEY@rpc.example.com": "https://rpc.example.com/***",
        "https://user:K@EY@rpc.example.com:8443/": "https://rpc.example.com:8443/***",
        "https://@rpc.example.com": "https://rpc.example.com/***",
        "https://rpc.example.com//KEY": "https://rpc.example.com/***",
        "https://rpc.example.com/;KEY": "https://rpc.example.com/***",
        "https://rpc.example.com?KEY": "https://rpc.example.com/***",
        "https://rpc.example.com#KEY": "https://rpc.example.com/***",
        "http://user:KEY@[::1]:8545/v2/KEY?k=KEY#KEY": "http://[::1]:8545/***",
    }.items():
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
