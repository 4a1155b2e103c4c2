"""Sweeping an account: an ordinary transfer of a previewed amount, once, and never beside other transactions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from relayer_service.api.exceptions import Conflict
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.concurrency import in_threads
from tests.notifications.admin_pages import hidden_fields, staff_who_may, told
from tests.relayers import factories
from tests.relayers.config_files import OTHER_KEY
from tests.transactions.accounts import FUNDS
from tests.transactions.engines import run_until_final
from tests.transactions.hardhat import OTHER_ADDRESS, RECEIVER
from tests.transactions.lab import Lab
from tests.transactions.limits import limit_relayer
from transactions.console import sweeping
from transactions.models import Status, Transaction

pytestmark = pytest.mark.django_db(transaction=True)

ETH = 10**18
CHANGED = "Not swept. Its account or transactions have changed since the preview."
ONE = "has an open transaction. Until all are final, its signer, network and address cannot be changed, and it cannot"


@pytest.fixture
def client(client: Client, transactional_db: None) -> Client:
    client.force_login(User.objects.create_superuser("admin"))
    return client


def url(relayer: Relayer) -> str:
    return f"/admin/relayers/relayer/{relayer.pk}/sweep/"


def preview(client: Client, lab: Lab, to: str = RECEIVER) -> dict[str, str]:
    """Return what the button of the preview sends."""
    page = client.post(url(lab.sender.relayer), {"to": to})
    return hidden_fields(page) | {"reason": "Rotation"}


def confirm(client: Client, lab: Lab, fields: dict[str, str]) -> Any:
    return client.post(url(lab.sender.relayer), fields)


def last_message(page: Any) -> str:
    return told(page)[-1]


def balance(lab: Lab, address: str) -> int:
    return int(lab.chain.rpc("eth_getBalance", address, "latest"), 16)


def test_what_arrives_is_what_the_preview_shows(client: Client, lab: Lab) -> None:
    sender = lab.sender.relayer
    page = client.post(url(sender), {"to": RECEIVER})
    rows = {str(name): str(value) for name, value in page.context["table"].rows}
    assert [rows[name] for name in ("From", "To", "Balance")] == [sender.address, RECEIVER, "10 ETH"]
    assert page.context["texts"] == [
        "Sends the coins of this account to another one. ERC-20 tokens, NFTs and roles in contracts stay with it."
    ]
    assert not Transaction.objects.exists()
    fields = hidden_fields(page) | {"reason": "Rotation"}
    before, amount = balance(lab, RECEIVER), int(fields["amount"])
    responses = [confirm(client, lab, fields) for _ in range(2)]
    row = Transaction.objects.get()
    assert {response["Location"] for response in responses} == {f"/admin/transactions/transaction/{row.pk}/change/"}
    assert (row.to, row.value, row.requested_by) == (RECEIVER, amount, "admin")
    entries = AuditEntry.objects.filter(object_type="transaction").values_list("object_id", "actor", "reason")
    assert [*entries] == [(row.identifier, "admin", "Swept by admin. Rotation")]
    lab.engine.lane_pk = lab.lane.pk
    run_until_final(lab.engine, lab.chain)
    row.refresh_from_db()
    assert row.status == Status.CONFIRMED
    assert balance(lab, RECEIVER) - before == amount
    # What was kept for gas is left, less what was paid.
    assert 0 < balance(lab, sender.address) < FUNDS - amount < ETH // 100


def test_nothing_is_swept_beside_other_transactions(client: Client, lab: Lab) -> None:
    fields = preview(client, lab)
    lab.send("a")
    # The preview was made before it.
    confirm(client, lab, fields)
    page = client.post(url(lab.sender.relayer), {"to": RECEIVER})
    text = f"Not swept. Sweep it once all is final. Relayer {lab.sender.relayer} {ONE} be deleted."
    assert last_message(page) == text
    assert Transaction.objects.count() == 1
    lab.finish()
    page = confirm(client, lab, fields)
    assert last_message(page) == CHANGED
    assert Transaction.objects.count() == 1


def test_two_previews_send_one_sweep(client: Client, lab: Lab) -> None:
    first, second = preview(client, lab), preview(client, lab, OTHER_ADDRESS)
    confirm(client, lab, first)
    page = confirm(client, lab, second)
    assert Transaction.objects.get().to == RECEIVER
    assert last_message(page).startswith("Not swept. ")


def test_two_who_confirm_at_once_send_one_sweep(client: Client, lab: Lab) -> None:
    fields = [preview(client, lab), preview(client, lab, OTHER_ADDRESS)]

    def sweep(sent: dict[str, str]) -> bool:
        try:
            sweeping.send("admin", lab.sender.relayer, sent["to"], int(sent["amount"]), sent["key"], "")
        except Conflict:
            return False
        return True

    assert sorted(in_threads(*(partial(sweep, each) for each in fields))) == [False, True]
    assert Transaction.objects.count() == 1


def test_a_preview_of_another_account_sends_nothing(client: Client, lab: Lab) -> None:
    fields = preview(client, lab)
    relayer = lab.sender.relayer
    relayer.signer = factories.signer("other", OTHER_KEY)
    relayer.address = OTHER_ADDRESS
    relayer.save()
    assert last_message(confirm(client, lab, fields)) == CHANGED
    assert not Transaction.objects.exists()


def test_rules_and_reserves_apply_to_a_sweep(client: Client, lab: Lab) -> None:
    relayer = lab.sender.relayer
    relayer.reserve_text = str(9 * ETH)
    relayer.save()
    limit_relayer(relayer, max_value="5")
    page = client.post(url(relayer), {"to": RECEIVER})
    assert page.context["texts"][1].startswith("It would be refused now. Value 0.99")
    fields = hidden_fields(page)
    assert 0 < int(fields["amount"]) < ETH
    assert last_message(confirm(client, lab, fields)).startswith("Not swept. Refused by the spending rule max_value")
    relayer.reserve_text = str(FUNDS)
    relayer.save()
    text = last_message(client.post(url(relayer), {"to": RECEIVER}))
    assert text.startswith("Not swept. There is nothing to sweep: the balance is 10 ETH, of which 0.0")
    assert text.endswith("is kept for gas and 10 ETH as the relayer's reserve.")
    assert not Transaction.objects.exists()


def test_an_account_that_is_topped_up_is_not_swept(client: Client, lab: Lab) -> None:
    relayer = lab.sender.relayer
    rich = factories.relayer(identifier="rich", network=relayer.network, address=OTHER_ADDRESS)
    amounts = {"top_up_minimum_text": "1", "top_up_target_text": "2", "top_up_daily_limit_text": "2"}
    Relayer.objects.filter(pk=relayer.pk).update(funding_relayer=rich, **amounts)
    page = client.post(url(relayer), {"to": RECEIVER})
    assert told(page) == ["Not swept. The relayer rich would top it up again. Remove its top-up first."]


def test_a_forged_or_wrong_form_sends_nothing(client: Client, lab: Lab) -> None:
    relayer = lab.sender.relayer
    faults = {
        "": "This field is required.",
        "0x12": "must be an EVM address: 0x and 40 hexadecimal digits",
        relayer.address: "This is the account that is swept.",
    }
    for to, fault in faults.items():
        page = client.post(url(relayer), {"to": to, "x": ""})
        assert page.context["form"].errors == {"to": [fault]}
    fields = preview(client, lab)
    for changes in ({"amount": "0"}, {"amount": "1e5"}, {"amount": str(2**256)}, {"key": "x" * 256}):
        assert confirm(client, lab, fields | changes).status_code == 400
    # A key that no preview has.
    confirm(client, lab, fields | {"key": "sweep-1"})
    assert not Transaction.objects.exists()


def test_only_those_who_may_send_see_and_open_it(client: Client, lab: Lab) -> None:
    fields, relayer = preview(client, lab), lab.sender.relayer
    page = f"/admin/relayers/relayer/{relayer.pk}/change/"
    signer = f"/admin/signers/signer/{relayer.signer.pk}/change/"
    seen = ["view_relayer", "view_transaction", "change_signer", "view_signer", "view_signeruser"]
    staff = staff_who_may(client, *seen)
    assert url(relayer) not in staff.get(page).text
    assert url(relayer) not in staff.post(signer, {"key_source": "generate"}).text
    assert staff.get(url(relayer)).status_code == 403
    assert confirm(staff, lab, fields).status_code == 403
    sender = staff_who_may(client, *seen, "add_transaction")
    assert url(relayer) in sender.get(page).text
    assert url(relayer) in sender.post(signer, {"key_source": "generate"}).text
    assert sender.get(url(relayer)).status_code == 200
    assert not Transaction.objects.exists()


def test_nodes_that_do_not_answer_are_reported(client: Client, lab: Lab) -> None:
    relayer = lab.sender.relayer
    relayer.custom_rpc_urls = [{"url": "http://127.0.0.1:9", "weight": 1}]
    relayer.save()
    assert last_message(client.post(url(relayer), {"to": RECEIVER})).startswith("Not swept. The nodes of the relayer ")
