"""Fee tokens in `dump_config`: all of them, in a form that `load_config` takes back."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoAssertNumQueries

from rpc.models import FeeToken, PriceSource
from tests.amounts import amount
from tests.relayers.config_files import load, rows
from tests.rpc.config_tokens import PAIR, SPARSE, TOKEN_USD, USDC, document

pytestmark = pytest.mark.django_db


def dump() -> Any:
    output = io.StringIO()
    call_command("dump_config", stdout=output, stderr=io.StringIO())
    return json.loads(output.getvalue())


def test_a_dump_has_the_shape_of_the_file(tmp_path: Path) -> None:
    load(document(USDC, SPARSE), tmp_path)
    assert dump() == {
        "signers": [],
        "notifications": [],
        "relayers": [],
        "fee_tokens": [USDC, SPARSE | {"enabled": True, "margin_bps": 0, "max_spread_bps": 200}],
    }


def test_what_was_dumped_loads_as_unchanged_and_makes_the_same_anew(tmp_path: Path) -> None:
    awkward = SPARSE | {"symbol": "$${HOME}", "address": PAIR, "sources": []}
    load(document(USDC, SPARSE, awkward), tmp_path)
    # As staff may have written it.
    PriceSource.objects.filter(kind="uniswap_v2").update(min_liquidity_text="007", feed=TOKEN_USD)
    before, dumped = rows(), dump()
    assert load(dumped, tmp_path)[0] == [
        "fee token USDC on mainnet: unchanged",
        "fee token LINK on mainnet: unchanged",
        "fee token ${HOME} on mainnet: unchanged",
        "0 created, 0 updated, 3 unchanged.",
    ]
    assert rows() == before
    FeeToken.objects.all().delete()
    load(dumped, tmp_path)
    assert dump() == dumped


def test_many_tokens_take_few_queries(tmp_path: Path, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    count = amount(100, 1_200)
    tokens = [SPARSE | {"symbol": f"T{number}", "address": f"0x{number:040x}"} for number in range(count)]
    # Among them the entries of the audit log, of which SQLite takes under a hundred in one statement.
    with django_assert_max_num_queries(55):
        assert load(document(*tokens), tmp_path)[0][-1] == f"{count} created, 0 updated, 0 unchanged."
    with django_assert_max_num_queries(20):
        assert load(document(*tokens), tmp_path)[0][-1] == f"0 created, 0 updated, {count} unchanged."
        dump()
