"""Signers in the admin: the form of each type, Verify, and what cannot be undone."""

from __future__ import annotations

import json
import re
import socket
import tomllib
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from relayer_service.console.references import link
from relayer_service.models import Job
from signers import signing
from signers.backends import base
from signers.backends.base import SignerError
from signers.config_shapes import CONFIGS as SHAPES
from signers.console.fields import KEY_SOURCE, names_of
from signers.console.uploads import NOT_A_KEY_VERSION
from signers.models import Signer
from tests.notifications.admin_pages import confirm, shown
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories
from tests.sample.models import SignerUser
from tests.servers import PROJECT
from tests.signers.examples import CONFIGS
from tests.signers.usable import usable

pytestmark = pytest.mark.django_db

KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
ADD = "/admin/signers/signer/add/"
RESOURCE_NAME = (
    "projects/{project_id}/locations/{location}/keyRings/{key_ring_id}/cryptoKeys/{key_id}"
    "/cryptoKeyVersions/{key_version}"
)


def make_signer(identifier: str = "signer-1", key: str = KEY) -> Signer:
    signer = Signer(identifier=identifier, type="plain")
    signer.set_config({"key": key})
    signer.save()
    return signer


def change(signer: Signer) -> str:
    return f"/admin/signers/signer/{signer.pk}/change/"


def told(page: Any) -> list[str]:
    return [re.sub("<[^>]*>", "", str(message)) for message in page.context["messages"]]


def errors(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = page.context["adminform"].form.errors
    return found


def typed(signer_type: str, config: dict[str, Any]) -> dict[str, str]:
    """What a browser sends of a config: a service account as JSON, a key of Google by its resource name."""
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in config.items()}
    if isinstance(key := config.get("key"), dict):
        values["key"] = RESOURCE_NAME.format(**key)
    return {f"{signer_type}__{name}": value for name, value in values.items()}


def test_a_signer_of_each_type_is_added_with_its_own_fields_and_nobody_is_asked(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*args: Any) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket, "getaddrinfo", connect)
    for signer_type in SHAPES:
        config = usable(signer_type)
        admin_client.post(ADD, {"identifier": signer_type, "type": signer_type, **typed(signer_type, config)})
        signer = Signer.objects.get(identifier=signer_type)
        assert (signer.type, signer.full_config()) == (signer_type, config)
        page = admin_client.get(change(signer)).content.decode()
        names = set(re.findall(r'name="([a-z_]+__[a-z_]+)"', page))
        assert names == {name for name in names_of(signer_type) if name != KEY_SOURCE}
        assert names >= {f"{signer_type}__{name}" for name in SHAPES[signer_type]().fields}
        assert 'name="type"' not in page
        assert 'name="identifier"' not in page


NOT_A_KEY = "The key must be a secp256k1 private key: 32 bytes in hex."
NO_URL = "The address of Vault is not an http or https URL."
ACCOUNT = {"project_id": "a", "client_email": "b", "private_key_id": "c", "private_key": "garbage"}
SHOWN = {("provider_c_transit", "pubkey"), ("provider_d", "public_key")}
FAULTS: list[tuple[str, str, Any, str]] = [
    ("plain", "key", "garbage", NOT_A_KEY),
    ("provider_a_kms", "region", "eu central", "The region is not a valid AWS region name."),
    ("provider_b_kms", "key", "garbage", NOT_A_KEY_VERSION),
    ("provider_b_kms", "service_account", ACCOUNT, "service_account.private_key is not an RSA private key in PEM."),
    ("provider_c", "address", "vault", NO_URL),
    ("provider_c_transit", "address", "vault", NO_URL),
    ("provider_c_transit", "pubkey", "garbage", "pubkey is not an Ed25519 public key in base64 or hex."),
    ("provider_d", "public_key", "garbage", "public_key is not a secp256k1 public key in hex."),
    (
        *("provider_d", "api_private_key", "garbage"),
        "api_private_key and api_public_key are not a P-256 key pair in hex.",
    ),
    ("provider_e", "account_address", "0x1", "account_address is not an EVM address."),
    (
        *("provider_e", "api_key_secret", "garbage"),
        "api_key_secret is neither an Ed25519 key in base64 nor a P-256 key in PEM.",
    ),
    ("provider_e", "wallet_secret", "garbage", "wallet_secret is not a P-256 key in DER and base64."),
]


def test_a_config_that_can_never_work_is_refused_at_its_field(admin_client: Client) -> None:
    for signer_type, field, value, fault in FAULTS:
        fields = typed(signer_type, usable(signer_type) | {field: value})
        page = admin_client.post(ADD, {"identifier": "signer-1", "type": signer_type, **fields})
        assert errors(page) == {f"{signer_type}__{field}": [fault]}
        assert "garbage" not in page.content.decode() or (signer_type, field) in SHOWN
    assert not Signer.objects.exists()


def test_a_garbage_key_that_came_over_the_api_is_refused_when_staff_save_it(admin_client: Client) -> None:
    signer = make_signer(key="garbage")
    page = admin_client.post(change(signer), {"plain__key": ""})
    assert errors(page) == {"plain__key": [NOT_A_KEY]}


def test_the_hint_to_install_a_library_is_that_of_its_type_alone(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_is_importable", lambda module: module != "boto3")
    form = admin_client.get(ADD).context["adminform"].form
    labels = dict(form.fields["type"].choices)
    assert labels["provider_a_kms"] == "AWS KMS (provider_a_kms), not installed"
    assert [value for value, label in labels.items() if str(label).endswith("not installed")] == ["provider_a_kms"]
    assert form.fields["type"].help_text == "Cannot be changed after the signer is created."
    hint = (
        '<strong class="block">boto3 is not installed. Run '
        ".venv/bin/pip install -e &#x27;.[aws]&#x27; in the project&#x27;s folder.</strong>"
    )
    hinted = [name for name, field in form.fields.items() if "is not installed" in field.help_text]
    assert hinted == ["provider_a_kms__region"]
    assert form.fields["provider_a_kms__region"].help_text.endswith(hint)


def test_every_field_of_a_type_has_a_label_and_a_help_text(admin_client: Client) -> None:
    fields = admin_client.get(ADD).context["adminform"].form.fields
    for signer_type, shape in SHAPES.items():
        names = [f"{signer_type.value}__{name}" for name in shape().fields]
        assert set(names) <= set(names_of(signer_type))
        for name in names:
            assert (name, "_" in fields[name].label) == (name, False)
            assert fields[name].help_text


def test_the_library_of_a_type_is_an_extra_of_the_project() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    libraries = {signer_type: signing.backend_class(signer_type).library for signer_type in SHAPES}
    without = {signer_type for signer_type, library in libraries.items() if library is None}
    assert without == {"plain", "provider_c", "provider_c_transit"}
    for library in filter(None, libraries.values()):
        names = [re.split(r"[>\[]", requirement)[0] for requirement in extras[library.extra]]
        assert library.package.lower() in names


def test_a_library_that_is_not_there_is_missing() -> None:
    assert base.Library("a", "b", ("json",)).is_installed()
    assert not base.Library("a", "b", ("json", "not_there")).is_installed()
    assert not base.Library("a", "b", ("not_there.at.all",)).is_installed()


def test_the_page_of_a_signer_that_cannot_work_here_says_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = Signer(identifier="signer-1", type="provider_a_kms")
    signer.set_config(CONFIGS["provider_a_kms"])
    signer.save()
    monkeypatch.setattr(base, "_is_importable", lambda module: False)
    assert "boto3 is not installed. Run .venv/bin/pip install" in admin_client.get(change(signer)).content.decode()


def test_what_is_missing_is_said_at_its_field_and_nothing_is_added(admin_client: Client) -> None:
    page = admin_client.post(ADD, {"identifier": "x", "type": "provider_c", "provider_c__address": "http://a"})
    assert errors(page) == {
        "provider_c__key_name": ["This field is required."],
        "provider_c__role_id": ["This field is required."],
        "provider_c__secret_id": ["This field is required."],
    }
    assert not Signer.objects.exists()


def test_a_secret_that_is_left_empty_is_kept(admin_client: Client) -> None:
    signer = Signer(identifier="signer-1", type="provider_c")
    signer.set_config(CONFIGS["provider_c"])
    signer.save()
    form = {"address": "https://vault.example.com", "key_name": "new", "secret_id": "new secret", "role_id": ""}
    admin_client.post(change(signer), {f"provider_c__{name}": value for name, value in form.items()})
    assert Signer.objects.get().full_config() == {
        "address": "https://vault.example.com",
        "key_name": "new",
        "role_id": CONFIGS["provider_c"]["role_id"],
        "secret_id": "new secret",
    }


@pytest.mark.parametrize("signer_type", ["provider_c", "provider_c_transit"])
def test_secrets_are_not_sent_to_an_address_by_who_does_not_know_them(admin_client: Client, signer_type: str) -> None:
    signer = Signer(identifier="signer-1", type=signer_type)
    signer.set_config(CONFIGS[signer_type])
    signer.save()
    form = CONFIGS[signer_type] | {"address": "http://127.0.0.1:1", "role_id": "", "secret_id": "typed"}
    fields = {f"{signer_type}__{name}": value for name, value in form.items()}
    page = admin_client.post(change(signer), fields)
    assert errors(page)["__all__"] == ["The address has changed. Enter all secrets again."]
    assert Signer.objects.get().full_config() == CONFIGS[signer_type]


def test_what_was_verified_is_forgotten_with_the_key(admin_client: Client) -> None:
    signer = make_signer()
    signing.verify(signer)
    admin_client.post(change(signer), {"plain__key": ""})
    assert Signer.objects.get().verified_identity == ADDRESS
    admin_client.post(change(signer), {"plain__key": "22" * 32})
    changed = Signer.objects.get()
    assert (changed.verified_identity, changed.verified_at) == ("", None)


@pytest.mark.parametrize(
    ("key", "columns"), [("", set()), ("22" * 32, {"secrets", "verified_identity", "verified_at", "last_error"})]
)
def test_only_what_staff_changed_is_written(admin_client: Client, key: str, columns: set[str]) -> None:
    signer = make_signer()
    Signer.objects.update(verified_identity=ADDRESS, verified_at=signer.created_at)
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(change(signer), {"plain__key": key})
    updates = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "signers_signer"')]
    assert {name for sql in updates for name in re.findall(r'"(\w+)" = ', sql.partition("WHERE")[0])} == columns


def test_a_verification_of_what_was_changed_meanwhile_does_not_count() -> None:
    signer = make_signer()
    other = Signer.objects.get()
    other.set_config({"key": "22" * 32})
    other.save()
    with pytest.raises(SignerError, match=r"The signer was changed concurrently\."):
        signing.verify(signer)
    assert Signer.objects.get().verified_identity == ""


def test_a_signer_whose_key_is_lost_is_repaired_by_its_secrets(admin_client: Client, settings: Settings) -> None:
    lost = make_signer("lost")
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    page = admin_client.post(change(lost), {"plain__key": ""})
    assert errors(page)["__all__"] == [
        "The encryption key '1' is missing from ENCRYPTION_KEYS. Enter all secrets again."
    ]
    admin_client.post(change(lost), {"plain__key": KEY})
    assert Signer.objects.get().full_config() == {"key": KEY}


def test_the_list_cannot_be_filtered_by_what_it_does_not_show(admin_client: Client) -> None:
    make_signer()
    for lookup in ("secrets__startswith=1:", "config__contains=x", "secrets__regex=."):
        assert admin_client.get(f"/admin/signers/signer/?{lookup}").status_code == 400


def test_neither_id_nor_type_can_be_changed(admin_client: Client) -> None:
    signer = make_signer()
    admin_client.post(change(signer), {"identifier": "other", "type": "provider_a_kms", "plain__key": ""})
    signer.refresh_from_db()
    assert (signer.identifier, signer.type, signer.full_config()) == ("signer-1", "plain", {"key": KEY})


def verify(client: Client, *signers: Signer) -> Job:
    """Have signers verified from the list, and return the job."""
    action = {"action": "verify_selected", "_selected_action": [signer.pk for signer in signers]}
    confirm(client, "/admin/signers/signer/", action)
    run_jobs()
    return Job.objects.get()


def test_verify_shows_and_keeps_the_address(admin_client: Client) -> None:
    signer = make_signer()
    job = verify(admin_client, signer)
    assert (job.done, job.failures) == (1, [])
    signer.refresh_from_db()
    assert signer.verified_identity == ADDRESS
    assert signer.verified_at is not None
    assert ADDRESS in admin_client.get(change(signer)).content.decode()


def test_a_signer_is_verified_from_its_page(admin_client: Client) -> None:
    signer = make_signer()
    page = change(signer).replace("change", "verify")
    assert page in admin_client.get(change(signer)).text
    assert admin_client.get(page).context["table"].rows[0][0] == link(signer)
    assert admin_client.post(page, {"confirmed": signer.pk})["Location"] == change(signer)
    run_jobs()
    signer.refresh_from_db()
    assert signer.verified_identity == ADDRESS


@pytest.mark.django_db(transaction=True)
def test_saving_verifies_and_shows_the_address(admin_client: Client, client: Client) -> None:
    form = {"identifier": "signer-1", "type": "plain", "plain__key": KEY}
    for path in (ADD, change(make_signer("damaged", key="not a key"))):
        page = admin_client.post(path, form, follow=True)
        assert re.sub(r"\d+ ms", "N ms", told(page)[-1]) == f"Verified: {ADDRESS} (N ms)"
        assert shown(page, "verified_identity") == ADDRESS
    assert {signer.verified_identity for signer in Signer.objects.all()} == {ADDRESS}
    # Who may only add does not have it sign.
    user = User.objects.create_user("adder", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="add_signer"))
    client.force_login(user)
    assert client.post(ADD, form | {"identifier": "added"}).status_code == 302
    assert Signer.objects.get(identifier="added").verified_at is None


@pytest.mark.django_db(transaction=True)
def test_a_signer_that_fails_is_saved_with_what_to_check(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise SignerError("Vault refused the AppRole login.")

    monkeypatch.setattr(signing, "_prove", fail)
    fields = typed("provider_c", usable("provider_c"))
    page = admin_client.post(ADD, {"identifier": "signer-1", "type": "provider_c", **fields}, follow=True)
    assert told(page)[-1] == (
        "signer-1 is saved, but not verified: Vault refused the AppRole login. "
        "Check the address, the AppRole and its policy, which needs read on the secret."
    )
    assert Signer.objects.get().last_error == "Vault refused the AppRole login."


def test_verify_says_what_is_wrong_and_forgets_nothing(admin_client: Client) -> None:
    signer = make_signer(key="not a key")
    error = NOT_A_KEY
    job = verify(admin_client, signer)
    assert (job.done, job.failed, job.failures) == (0, 1, [["signer-1", error]])
    signer.refresh_from_db()
    assert (signer.verified_identity, signer.verified_at) == ("", None)
    assert signer.last_error == error
    assert error in admin_client.get(change(signer)).content.decode()
    admin_client.post(change(signer), {"plain__key": KEY})
    assert Signer.objects.get().last_error == ""


def test_a_lost_key_spoils_its_signer_alone(admin_client: Client, settings: Settings) -> None:
    lost = make_signer("lost")
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    good = make_signer("good")
    job = verify(admin_client, lost, good)
    assert (job.done, job.failed) == (1, 1)
    assert job.failures == [["lost", "The encryption key '1' is missing from ENCRYPTION_KEYS."]]
    assert admin_client.get("/admin/signers/signer/").status_code == 200
    assert admin_client.get(change(lost)).status_code == 200


def test_the_page_tells_what_a_signer_can_serve(admin_client: Client) -> None:
    assert "secp256k1 (evm)" in admin_client.get(change(make_signer())).content.decode()
    transit = Signer(identifier="transit", type="provider_c_transit")
    transit.set_config(CONFIGS["provider_c_transit"])
    transit.save()
    page = admin_client.get(change(transit)).content.decode()
    assert "Ed25519 (no network type: signs messages only)" in page


def test_a_signer_in_use_names_its_users_and_is_not_deleted(admin_client: Client) -> None:
    signer = make_signer()
    SignerUser.objects.create(name="relayer one", signer=signer)
    assert "relayer one" in admin_client.get(change(signer)).content.decode()
    url = f"/admin/signers/signer/{signer.pk}/delete/"
    page = admin_client.get(url).content.decode()
    assert "relayer one" in page
    admin_client.post(url, {"post": "yes"})
    assert Signer.objects.filter(pk=signer.pk).exists()


def test_who_uses_a_signer_is_counted_and_the_first_ten_are_links(admin_client: Client) -> None:
    signer = make_signer()
    assert shown(admin_client.get(change(signer)), "used_by") == "nothing"
    relayers = [factories.relayer(identifier=f"relayer-{number}", signer=signer) for number in range(12)]
    with CaptureQueriesContext(connection) as few:
        page = admin_client.get(change(signer))
    links = [
        f'<a class="underline" href="/admin/relayers/relayer/{row.pk}/change/">{row}</a>' for row in relayers[:10]
    ]
    more = f'<a class="underline" href="/admin/relayers/relayer/?signer__sequence__exact={signer.pk}">2 more</a>'
    assert shown(page, "used_by") == f"12 relayers: {', '.join(links)} and {more}"
    for number in range(12, 60):
        factories.relayer(identifier=f"relayer-{number}", signer=signer)
    with CaptureQueriesContext(connection) as many:
        page = admin_client.get(change(signer))
    assert shown(page, "used_by").startswith("60 relayers: ")
    assert len(many) == len(few)
    assert [query["sql"] for query in many if '"relayers_relayer"' in query["sql"] and "LIMIT 10" in query["sql"]]


def test_who_may_not_see_relayers_sees_how_many_there_are(client: Client) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_signer"))
    client.force_login(viewer)
    signer = make_signer()
    factories.relayer(signer=signer)
    assert shown(client.get(change(signer)), "use_counts") == "1 relayer"


def test_signers_are_found_by_any_part_of_id_and_address(admin_client: Client) -> None:
    make_signer()
    Signer.objects.update(verified_identity="0xabcdef")
    for query, found in {"SIGNER-": 1, "0xABc": 1, "igner": 1, "plain": 0}.items():
        assert admin_client.get(f"/admin/signers/signer/?q={query}").context["cl"].result_count == found


def test_the_list_makes_as_many_queries_for_many_signers_as_for_few(admin_client: Client) -> None:
    make_signer()
    # The first one asks whether any part of an ID can be searched for.
    admin_client.get("/admin/signers/signer/")
    with CaptureQueriesContext(connection) as few:
        admin_client.get("/admin/signers/signer/")
    for n in range(40):
        make_signer(f"more-{n}")
    with CaptureQueriesContext(connection) as many:
        admin_client.get("/admin/signers/signer/")
    assert len(many) == len(few)
