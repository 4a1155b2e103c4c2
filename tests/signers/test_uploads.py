"""Files and pasted texts in the form of a signer, and generated keys: what is kept, and what is refused."""

from __future__ import annotations

import copy
import json
import logging
from contextlib import ExitStack
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from eth_account import Account

from relayer_service.models import AuditEntry
from relayers.models import Relayer
from signers import keystores
from signers.console.fields import names_of
from signers.console.uploads import DECRYPTING, KEPT
from signers.models import Signer
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.relayers.factories import ADDRESS
from tests.signers.test_admin import ADD, RESOURCE_NAME, change, errors
from tests.signers.usable import usable

pytestmark = pytest.mark.django_db

GOOGLE, ACCOUNT_FILE = "provider_b_kms", "provider_b_kms__service_account_file"
ACCOUNT, NAME = "provider_b_kms__service_account", "provider_b_kms__key"
PASSPHRASE = "pass SECRET wörd"
KEYSTORE = Account.encrypt(bytes.fromhex(OTHER_KEY[2:]), PASSPHRASE, kdf="scrypt", iterations=2)
NO_OBJECT = "It is not a JSON object. Choose the JSON file of the key."
NO_ACCOUNT = "It is not the key of a service account. Create one under Service Accounts, Keys."
GENERATES = (
    "A new key has a new address. Saving it moves 1 relayer. Coins stay at the old address, which only the old key "
    "can sign for. The service deletes the old key: send the coins elsewhere first."
)
# What Google's file has besides what is used, here with addresses of the internal network.
URLS = dict.fromkeys(("token_uri", "auth_uri", "client_x509_cert_url"), "http://169.254.169.254/")


def file(content: Any) -> SimpleUploadedFile:
    return SimpleUploadedFile("key.json", content if isinstance(content, bytes) else json.dumps(content).encode())


def account(**others: Any) -> dict[str, Any]:
    return {"type": "service_account", **usable(GOOGLE)["service_account"], **URLS, **others}


def add_google(client: Client, **fields: Any) -> Any:
    name = RESOURCE_NAME.format(**usable(GOOGLE)["key"])
    return client.post(ADD, {"identifier": "signer-1", "type": GOOGLE, NAME: name, **fields})


def add_keystore(client: Client, keystore: Any = KEYSTORE, passphrase: str = PASSPHRASE, **fields: Any) -> Any:
    form = {"identifier": "signer-1", "type": "plain", "key_source": "keystore", "plain__passphrase": passphrase}
    return client.post(ADD, {**form, **({"plain__keystore": file(keystore)} if keystore else {}), **fields})


def test_of_a_service_account_only_what_is_used_is_kept(admin_client: Client) -> None:
    sources: list[dict[str, Any]] = [{ACCOUNT_FILE: file(account())}, {ACCOUNT: json.dumps(account())}]
    for number, fields in enumerate(sources):
        assert add_google(admin_client, identifier=f"signer-{number}", **fields).status_code == 302
        kept = {name: value for name, value in account().items() if name in KEPT}
        assert Signer.objects.latest("sequence").full_config() == {**usable(GOOGLE), "service_account": kept}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", NO_OBJECT),
        (b"\x00\xff SECRET", NO_OBJECT),
        (["SECRET"], NO_OBJECT),
        (b"{" * 65_537, "It is larger than 64 KiB. Choose the JSON file of the key."),
        ({"installed": {"client_secret": "SECRET"}}, NO_ACCOUNT),
        (account(type="authorized_user", private_key="SECRET"), NO_ACCOUNT),
        (
            account(private_key=["SECRET"], client_email=""),
            "It has no private_key, client_email. Download the key again.",
        ),
        (account(private_key="SECRET"), "service_account.private_key is not an RSA private key in PEM."),
        (account(universe_domain="SECRET.example"), "service_account.universe_domain must be googleapis.com."),
    ],
)
def test_the_error_of_a_file_names_what_is_wrong_and_quotes_nothing(
    admin_client: Client, caplog: pytest.LogCaptureFixture, content: Any, fault: str
) -> None:
    caplog.set_level(logging.DEBUG)
    page = add_google(admin_client, **{ACCOUNT_FILE: file(content)})
    (faults,) = errors(page).values()
    assert faults == [fault]
    assert "SECRET" not in page.content.decode() + caplog.text
    assert not Signer.objects.exists()


def test_one_message_asks_for_a_service_account_and_required_fields_are_marked(admin_client: Client) -> None:
    page = admin_client.post(ADD, {"identifier": "signer-1", "type": GOOGLE})
    assert errors(page) == {
        ACCOUNT_FILE: ["Upload the service account's file, or paste its content."],
        f"{GOOGLE}__key": ["This field is required."],
    }
    fields = page.context["adminform"].form.fields
    assert [name for name in names_of(GOOGLE) if fields[name].required] == [ACCOUNT_FILE, f"{GOOGLE}__key"]
    # A secret that is stored is kept.
    add_google(admin_client, **{ACCOUNT: json.dumps(account())})
    page = admin_client.get(change(Signer.objects.get()))
    assert not any(field.required for field in page.context["adminform"].form.fields.values())


def test_a_file_and_a_pasted_text_are_not_both_accepted(admin_client: Client) -> None:
    page = add_google(admin_client, **{ACCOUNT_FILE: file(account()), ACCOUNT: json.dumps(account())})
    assert errors(page) == {ACCOUNT_FILE: ["Upload the file or paste its contents, not both."]}


def test_a_keystore_becomes_a_local_key(admin_client: Client) -> None:
    assert add_keystore(admin_client).status_code == 302
    assert Signer.objects.get().full_config() == {"key": OTHER_KEY}
    (entry,) = AuditEntry.objects.all()
    assert "SECRET" not in str(entry.changes)
    assert OTHER_KEY[2:] not in str(entry.changes)


@pytest.mark.parametrize(
    ("keystore", "passphrase", "fault"),
    [
        (None, PASSPHRASE, "Choose the keystore file."),
        (KEYSTORE, "SECRET", "The keystore cannot be decrypted: the passphrase is wrong, or the keystore is damaged."),
        (b"SECRET", PASSPHRASE, NO_OBJECT),
        ({"version": "SECRET"}, PASSPHRASE, "The keystore cannot be decrypted: this is not a keystore of version 3."),
    ],
)
def test_a_keystore_that_cannot_be_decrypted_is_an_error(
    admin_client: Client, keystore: Any, passphrase: str, fault: str
) -> None:
    page = add_keystore(admin_client, keystore, passphrase)
    assert errors(page) == {"plain__keystore": [fault]}
    assert "SECRET" not in page.content.decode()
    assert not Signer.objects.exists()


def test_a_costly_keystore_is_refused_before_it_is_decrypted(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("signers.keystores.Scrypt.derive", raising=False)
    costly = copy.deepcopy(KEYSTORE)
    costly["crypto"]["kdfparams"]["n"] = 2**20
    page = add_keystore(admin_client, costly)
    assert errors(page) == {"plain__keystore": ["The keystore cannot be decrypted: n, r and p are too high."]}


def test_a_keystore_is_decrypted_once_in_a_request_and_by_few_threads(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    decrypt, calls = keystores.decrypt, []

    def counted(*args: Any) -> str:
        calls.append(DECRYPTING._in_use)
        return decrypt(*args)

    monkeypatch.setattr(keystores, "decrypt", counted)
    add_keystore(admin_client)
    assert calls == [1]
    with ExitStack() as stack:
        for _ in range(DECRYPTING.size):
            stack.enter_context(DECRYPTING.occupied())
        page = add_keystore(admin_client, identifier="signer-2")
    assert errors(page) == {"plain__keystore": ["Other keystores are being decrypted. Try again in some seconds."]}
    assert Signer.objects.count() == 1


def test_a_keystore_that_is_not_chosen_as_the_source_is_not_ignored(admin_client: Client) -> None:
    signer = factories.signer()
    page = admin_client.post(change(signer), {"key_source": "enter", "plain__keystore": file(KEYSTORE)})
    assert errors(page) == {"key_source": ["Choose to upload a keystore file, or remove the file."]}


def test_a_generated_key_replaces_another_after_a_confirmation(admin_client: Client) -> None:
    relayer = factories.relayer()
    before = relayer.signer.full_config()
    form = {"key_source": "generate"}
    page = admin_client.post(change(relayer.signer), form)
    assert errors(page) == {"confirmed_address": [GENERATES]}
    # The address of another key confirms nothing.
    admin_client.post(change(relayer.signer), form | {"confirmed_address": OTHER_ADDRESS})
    assert Signer.objects.get().full_config() == before
    page = admin_client.post(change(relayer.signer), form | {"confirmed_address": "generated"})
    assert page.status_code == 302
    (signer, moved) = Signer.objects.get(), Relayer.objects.get()
    assert moved.address not in {ADDRESS, ""}
    assert moved.address == Account.from_key(signer.full_config()["key"]).address


def test_a_keystore_replaces_a_key_after_its_address_is_confirmed(admin_client: Client) -> None:
    relayer = factories.relayer()
    form = {"key_source": "keystore", "plain__passphrase": PASSPHRASE}
    for confirmed, status in (("generated", 200), (OTHER_ADDRESS, 302)):
        sent = form | {"plain__keystore": file(KEYSTORE), "confirmed_address": confirmed}
        assert admin_client.post(change(relayer.signer), sent).status_code == status
    assert Relayer.objects.get().address == OTHER_ADDRESS
