"""CSV exports of transactions and of gas spent: in the admin, and without a limit as commands."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chain.networks import networks
from relayers.models import Relayer
from relayers.models.tags import save_tags
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.console import export_actions, exports, gas_report
from transactions.models import Lane, Status, Transaction

pytestmark = pytest.mark.django_db

LIST = "/admin/transactions/transaction/"
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
GWEI = 10**9
OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
# More than 64 bits.
LARGE = 2**200


@pytest.fixture
def lane() -> Lane:
    relayer = relayer_factories.relayer()
    save_tags({relayer.pk: ["prod", "eu"]})
    return factories.lane(relayer)


def mined(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    """Create a final transaction with a receipt."""
    values = {
        "identifier": f"tx-{nonce}",
        "status": Status.SENT,
        "created_at": NOON - timedelta(minutes=1),
        "sent_at": NOON - 50 * SECOND,
        "mined_at": NOON - 30 * SECOND,
        "block_number": 7_654_321,
        "succeeded": True,
        "gas_used": 21_000,
        "effective_gas_price_text": str(15 * GWEI),
        "requested_by": "Shop",
    }
    end = {name: changes.pop(name, value) for name, value in (("status", Status.CONFIRMED), ("finished_at", NOON))}
    row = factories.transaction(lane, nonce=nonce, **(values | changes))
    row.mined_attempt = factories.attempt(row)
    row.save()
    Transaction.objects.filter(pk=row.pk).update(**(factories.final(end["status"]) | end))
    return Transaction.objects.get(pk=row.pk)


def parsed(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def export(client: Client, path: str = "export/") -> list[list[str]]:
    answer = client.get(f"{LIST}{path}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return parsed(answer.getvalue().decode())


def ids(lines: list[list[str]]) -> list[str]:
    return [line[0] for line in lines[1:]]


def run(*arguments: str) -> list[list[str]]:
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return parsed(output.getvalue())


def test_a_line_has_every_fact_of_a_transaction(admin_client: Client, lane: Lane) -> None:
    labels = {"external_id": "=HYPERLINK(1)", "metadata": {"b": '@x, "y"', "a": "=1\u20ac"}}
    prices = {"value_text": str(LARGE), "effective_gas_price_text": str(LARGE)}
    row = mined(lane, 7, idempotency_key="order-5", **prices, **labels)
    assert row.mined_attempt
    header, line = export(admin_client)
    assert dict(zip(header, line, strict=True)) == {
        "id": "tx-7",
        "status": "confirmed",
        "status_reason": "",
        "kind": "request",
        "relayer_id": "relayer-1",
        "network": "sepolia",
        "chain_id": "11155111",
        "from": lane.address,
        "to": factories.RECEIVER,
        "value": str(LARGE),
        "nonce": "7",
        "hash": row.mined_attempt.hash,
        "requested_by": "Shop",
        "idempotency_key": "order-5",
        "external_id": "'=HYPERLINK(1)",
        "metadata": '{"a": "=1\u20ac", "b": "@x, \\"y\\""}',
        "created_at": "2026-03-04T11:59:00.000000Z",
        "valid_until": "2100-01-01T00:00:00.000000Z",
        "sent_at": "2026-03-04T11:59:10.000000Z",
        "mined_at": "2026-03-04T11:59:30.000000Z",
        "finished_at": "2026-03-04T12:00:00.000000Z",
        "block_number": "7654321",
        "succeeded": "true",
        "gas_used": "21000",
        "effective_gas_price": str(LARGE),
        "fee": str(21_000 * LARGE),
        "contract_address": "",
        "relayer_tags": "eu prod",
    }


def test_the_export_has_the_rows_of_the_filter_and_search(admin_client: Client, lane: Lane) -> None:
    mined(lane, 1)
    mined(lane, 2, status=Status.FAILED)
    mined(lane, 3, kind="gap")
    factories.transaction(lane, identifier="tx-4", status_reason="Waiting for funds.")
    header, line, *_ = export(admin_client, "export/?status=pending")
    cells = dict(zip(header, line, strict=True))
    assert [cells[name] for name in ("status", "status_reason", "nonce", "hash", "mined_at", "succeeded", "fee")] == [
        *("pending", "Waiting for funds.", "", "", "", "", ""),
    ]
    assert ids(export(admin_client)) == ["tx-4", "tx-2", "tx-1"]
    assert ids(export(admin_client, "export/?status=failed")) == ["tx-2"]
    assert ids(export(admin_client, "export/?kind=all&o=9")) == ["tx-4", "tx-3", "tx-2", "tx-1"]
    assert ids(export(admin_client, "export/?q=tx-1")) == ["tx-1"]
    assert admin_client.get(f"{LIST}export/?requested_by=Shop").status_code == 400
    assert admin_client.get(f"{LIST}export/?status=%00")["Location"] == LIST


def test_a_long_export_is_read_in_batches_and_ends(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nonce in range(7):
        mined(lane, nonce)
    expected = [f"tx-{nonce}" for nonce in reversed(range(7))]
    with CaptureQueriesContext(connection) as few:
        export(admin_client)
    monkeypatch.setattr(exports, "EXPORT_BATCH", 3)
    with CaptureQueriesContext(connection) as many:
        assert ids(export(admin_client)) == expected
    # Two more batches, each with its lanes, relayers, tags and attempts: nothing is read row by row.
    assert len(many) == len(few) + 2 * 5
    monkeypatch.setattr(export_actions, "MAX_EXPORTED", 5)
    assert ids(export(admin_client)) == expected[:5]
    # The command has no limit.
    assert ids(run("export_transactions")) == expected


def test_no_cell_of_an_export_is_a_formula(admin_client: Client, lane: Lane) -> None:
    Relayer.objects.update(identifier="@relayer")
    row = mined(lane, 7, requested_by="=1+1", idempotency_key="+1", identifier="-1")
    Transaction.objects.filter(pk=row.pk).update(status_reason="\t=1")
    header, line = export(admin_client)
    found = dict(zip(header, line, strict=True))
    names = ("id", "requested_by", "idempotency_key", "relayer_id", "status_reason")
    assert [found[name] for name in names] == ["'-1", "'=1+1", "'+1", "'@relayer", "'\t=1"]
    (_, spent) = export(admin_client, "gas/?csv=&first=2026-03-04&last=2026-03-04")
    assert [spent[1], spent[5]] == ["'@relayer", "'=1+1"]


def test_the_command_exports_chosen_relayers_days_and_statuses(lane: Lane) -> None:
    other = factories.lane(relayer_factories.relayer(identifier="relayer-2", address=OTHER))
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    mined(lane, 1, created_at=midnight - SECOND)
    mined(lane, 2, created_at=midnight, status=Status.FAILED)
    mined(lane, 3, created_at=midnight + timedelta(days=1), kind="gap")
    mined(other, 4, created_at=midnight)
    assert ids(run("export_transactions")) == ["tx-4", "tx-3", "tx-2", "tx-1"]
    assert ids(run("export_transactions", "--relayer", "relayer-1")) == ["tx-3", "tx-2", "tx-1"]
    assert ids(run("export_transactions", "--status", "failed")) == ["tx-2"]
    assert ids(run("export_transactions", "--from", "2026-03-05", "--to", "2026-03-05")) == ["tx-4", "tx-2"]
    with pytest.raises(CommandError, match="No lane belongs to: nobody"):
        run("export_transactions", "--relayer", "nobody")


def test_gas_is_summed_exactly_by_day_relayer_and_requester(admin_client: Client, lane: Lane) -> None:
    other = factories.lane(relayer_factories.relayer(identifier="relayer-2", network="mainnet", address=OTHER))
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    mined(lane, 1, effective_gas_price_text=str(LARGE + 1))
    mined(lane, 2, effective_gas_price_text=str(LARGE), gas_used=1, finished_at=midnight - SECOND)
    mined(lane, 3, status=Status.FAILED, succeeded=False, finished_at=midnight)
    mined(lane, 4, requested_by="Bank")
    mined(lane, 5, kind="gap", requested_by="")
    mined(other, 6, status=Status.CANCELED)
    # Without a receipt, in no block yet, and on other days.
    factories.transaction(lane, status=Status.EXPIRED, finished_at=NOON, requested_by="Shop")
    mined(lane, 7, status=Status.MINED, finished_at=None)
    mined(lane, 8, finished_at=NOON - timedelta(days=1))
    mined(lane, 9, finished_at=midnight + timedelta(days=1))
    account, tags, fee = ["sepolia", "11155111", lane.address], "eu prod", str(21_000 * 15 * GWEI)
    expected = [
        gas_report.GAS_COLUMNS,
        ["2026-03-04", "relayer-1", *account, "", "gap", "1", "21000", fee, tags],
        ["2026-03-04", "relayer-1", *account, "Bank", "request", "1", "21000", fee, tags],
        [
            "2026-03-04",
            "relayer-1",
            *account,
            "Shop",
            "request",
            "2",
            "21001",
            str(21_000 * (LARGE + 1) + LARGE),
            tags,
        ],
        [
            "2026-03-04",
            "relayer-2",
            "mainnet",
            "1",
            OTHER,
            "Shop",
            "request",
            "1",
            "21000",
            fee,
            "",
        ],
        ["2026-03-05", "relayer-1", *account, "Shop", "request", "1", "21000", fee, tags],
    ]
    assert export(admin_client, "gas/?csv=&first=2026-03-04&last=2026-03-05") == expected
    assert run("export_gas", "2026-03-04", "2026-03-05") == expected


def test_the_page_shows_what_was_paid_by_group_and_day(admin_client: Client, lane: Lane) -> None:
    other = factories.lane(relayer_factories.relayer(identifier="relayer-2", network="mainnet", address=OTHER))
    fee = 21_000 * 15 * GWEI
    mined(lane, 1)
    mined(lane, 2, finished_at=NOON + timedelta(days=1), requested_by="<b>Bank</b>")
    mined(other, 3)
    chart = {"sepolia": [["relayer-1", "0.000315", "0.000315"]], "mainnet": [["relayer-2", "0.000315", "0"]]}
    totals = [["Total", "sepolia", "2"], ["Total", "mainnet", "1"]]
    tokens = [["<b>Bank</b>", "sepolia", "1"], ["Shop", "sepolia", "1"], ["Shop", "mainnet", "1"]]
    per_day = [["2026-03-04", "sepolia", "1"], ["2026-03-05", "sepolia", "1"], ["2026-03-04", "mainnet", "1"]]
    for by, rows, bars in (
        ("", [*totals, ["relayer-1", "sepolia", "2"], ["relayer-2", "mainnet", "1"]], chart),
        ("network", [["sepolia", "2"], ["mainnet", "1"]], {"sepolia": [["sepolia", *chart["sepolia"][0][1:]]]}),
        ("token", totals + tokens, {}),
        ("day", totals + per_day, {"sepolia": [["Paid", "0.000315", "0.000315"]]}),
    ):
        page = admin_client.get(f"{LIST}gas/?first=2026-03-04&last=2026-03-05&by={by}")
        table = page.context["table"]
        assert [line[:-2] for line in table.rows] == rows
        assert all(line[-2] in {"21,000", "42,000"} and f"{fee * int(line[-3])} wei" for line in table.rows)
        assert "0.000315 ETH" in table.rows[-1][-1]
        found = {
            title.split(":")[0]: [[each["label"], *each["data"]] for each in json.loads(drawn["data"])["datasets"]]
            for title, drawn in page.context["charts"]
        }
        assert found | bars == found
        assert "<b>Bank" not in page.text


def test_gas_has_the_coin_of_its_network_where_others_have_the_chain_id_too(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = replace(networks()["sepolia"], name="ours", symbol="OUR")
    monkeypatch.setitem(networks(), "ours", ours)
    mined(lane, 0)
    mined(factories.lane(relayer_factories.relayer(identifier="other", network="ours", address=OTHER)), 1)
    page = admin_client.get(f"{LIST}gas/?first=2026-03-04&last=2026-03-04&by=network")
    assert [line[0] for line in page.context["table"].rows if "0.000315 OUR" in line[-1]] == ["ours"]
    assert [title for title, _ in page.context["charts"]] == [
        "ours: paid per day, in OUR",
        "sepolia: paid per day, in ETH",
    ]


def test_a_chart_has_those_that_paid_most_and_a_table_an_end(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gas_report, "MAX_BARS", 1)
    monkeypatch.setattr(gas_report, "MAX_LINES", 3)
    for nonce in range(3):
        mined(lane, nonce, gas_used=21_000 * (nonce + 1), requested_by=f"shop-{nonce}")
    page = admin_client.get(f"{LIST}gas/?first=2026-03-04&last=2026-03-04&by=token")
    ((_, chart),) = page.context["charts"]
    assert [each["label"] for each in json.loads(chart["data"])["datasets"]] == ["shop-2", "Others"]
    assert ([line[0] for line in page.context["table"].rows], "and 1 more" in page.text) == (
        ["Total", "shop-2", "shop-1"],
        True,
    )


def test_gas_is_read_in_batches_also_that_of_a_deleted_relayer(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many are final at the same moment."""
    for nonce in range(7):
        mined(lane, nonce, finished_at=NOON + nonce // 5 * SECOND)
    Lane.objects.update(relayer=None)
    Relayer.objects.all().delete()
    monkeypatch.setattr(gas_report, "GAS_BATCH", 2)
    with CaptureQueriesContext(connection) as queries:
        (_, line) = run("export_gas", "2026-03-04", "2026-03-04")
    assert [*line[1:5], line[7]] == ["", "sepolia", "11155111", lane.address, "7"]
    # Four batches and the empty one.
    assert len(queries) == 5


def test_the_report_of_gas_reads_along_an_index(lane: Lane) -> None:
    for nonce in range(20):
        mined(lane, nonce, finished_at=NOON + timedelta(days=nonce))
    rows = gas_report.finished_between(NOON.date(), NOON.date()).order_by("finished_at", "sequence")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
    assert "transaction_finished" in rows.explain()


def test_invalid_days_of_a_report_are_refused_and_days_without_transactions_are_empty(admin_client: Client) -> None:
    for query, text in (
        ("first=2026-03-05&last=2026-03-04", "This day is before the first one."),
        ("first=2025-03-03&last=2026-03-04", "Choose at most 366 days."),
        ("first=x&last=2026-03-04", "Enter a valid date."),
        ("last=2026-03-04", "This field is required."),
        ("first=2026-03-04&last=9999-12-31", "Choose at most 366 days."),
    ):
        page = admin_client.get(f"{LIST}gas/?{query}")
        assert (page.status_code, text in page.content.decode()) == (200, True), query
    assert export(admin_client, "gas/?csv=&first=9999-12-31&last=9999-12-31") == [gas_report.GAS_COLUMNS]
    # The limit of days is inclusive.
    assert export(admin_client, "gas/?csv=&first=2025-03-04&last=2026-03-04") == [gas_report.GAS_COLUMNS]


def test_a_report_of_too_many_transactions_is_refused_not_cut(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_actions, "MAX_REPORTED", 2)
    days = "gas/?csv=&first=2026-03-04&last=2026-03-04"
    for nonce in range(2):
        mined(lane, nonce)
    assert export(admin_client, days)[1][7] == "2"
    mined(lane, 2)
    page = admin_client.get(f"{LIST}{days}")
    assert "manage.py export_gas 2026-03-04 2026-03-04" in page.content.decode()
    assert run("export_gas", "2026-03-04", "2026-03-04")[1][7] == "3"
