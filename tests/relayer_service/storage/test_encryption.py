"""Secrets at rest: what is in the column, what opens it, and what does not."""

import base64
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from relayer_service.models import CANARY, EncryptionKey
from relayer_service.storage.encryption import DecryptionError, Sealed, reseal, seal, unseal
from signers.models import Signer

OLD, NEW = bytes(range(32)), bytes(range(100, 132))
WRONG = "the key has a different value, or the ciphertext belongs to another row."


def make_signer(identifier: str, **secrets: Any) -> Signer:
    signer = Signer(identifier=identifier, type="plain")
    signer.set_config(secrets)
    signer.save()
    return signer


def column(identifier: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT secrets FROM signers_signer WHERE identifier = %s", [identifier])
        text: str = cursor.fetchone()[0]
        return text


def test_a_sealed_value_opens_in_its_own_context_alone() -> None:
    sealed = seal(b"value", "signers.signer.secrets:a")
    assert unseal(sealed, "signers.signer.secrets:a") == b"value"
    with pytest.raises(DecryptionError):
        unseal(sealed, "signers.signer.secrets:b")
    # The same value is never sealed to the same text.
    assert seal(b"value", "signers.signer.secrets:a") != sealed


def test_the_first_key_seals_and_all_keys_open(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = {"old": OLD}
    before = seal(b"value", "a")
    settings.ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    after = seal(b"value", "a")
    assert (before.key_id, after.key_id) == ("old", "new")
    assert unseal(before, "a") == unseal(after, "a") == b"value"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"new": NEW}, "The encryption key 'old' is missing from ENCRYPTION_KEYS."),
        ({"old": NEW}, f"A value encrypted with the key 'old' cannot be decrypted: {WRONG}"),
    ],
)
def test_a_lost_key_is_named_and_nothing_else(settings: Settings, keys: dict[str, bytes], message: str) -> None:
    settings.ENCRYPTION_KEYS = {"old": OLD}
    sealed = seal(b"value", "a")
    settings.ENCRYPTION_KEYS = keys
    with pytest.raises(DecryptionError) as caught:
        unseal(sealed, "a")
    assert str(caught.value) == message
    assert caught.value.__cause__ is None


def test_every_changed_byte_is_noticed_and_garbage_does_not_open() -> None:
    for text in ("", "1:", "1:%%%", "1:AAAA", "plain text"):
        with pytest.raises(DecryptionError):
            unseal(Sealed(text), "a")
    sealed = seal(b"value", "a")
    blob = base64.b64decode(sealed.text.partition(":")[2])
    for index in range(len(blob)):
        changed = bytearray(blob)
        changed[index] ^= 1
        with pytest.raises(DecryptionError):
            unseal(Sealed("1:" + base64.b64encode(changed).decode()), "a")


@pytest.mark.django_db
def test_the_column_holds_no_plain_text() -> None:
    make_signer("a", key="hunter2")
    assert column("a").startswith("1:")
    assert "hunter2" not in column("a")
    assert Signer.objects.get(identifier="a").secrets == {"key": "hunter2"}
    # A row that is saved unchanged keeps its ciphertext, and no plain value slips in by an update.
    before = column("a")
    Signer.objects.get(identifier="a").save()
    with pytest.raises(ValueError, match="secrets is not ciphertext"), transaction.atomic():
        Signer.objects.update(secrets={"key": "plain"})
    assert column("a") == before


@pytest.mark.django_db
def test_a_ciphertext_that_was_moved_to_another_row_does_not_open() -> None:
    make_signer("a", key="of a")
    make_signer("b", key="of b")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE signers_signer SET secrets = %s WHERE identifier = 'b'", [column("a")])
    with pytest.raises(DecryptionError):
        Signer.objects.get(identifier="b").secrets  # noqa: B018


@pytest.mark.django_db
def test_a_rotation_does_not_undo_what_was_saved_meanwhile() -> None:
    signer = make_signer("a", key="of before")
    read = signer.sealed_secrets
    signer.set_config({"key": "of meanwhile"})
    signer.save()
    assert not reseal(signer, Signer._meta.get_field("secrets"), read)
    assert Signer.objects.get(identifier="a").secrets == {"key": "of meanwhile"}


def test_an_unsaved_secret_has_no_representation() -> None:
    signer = Signer(identifier="a", type="plain")
    signer.set_config({"key": "hunter2"})
    assert "hunter2" not in repr(signer.__dict__)
    assert "hunter2" not in repr(signer)


@pytest.mark.django_db
def test_a_canary_tells_a_missing_and_a_wrong_key(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = {"old": OLD}
    EncryptionKey.objects.ensure_canary()
    EncryptionKey.objects.ensure_canary()
    assert [key.canary for key in EncryptionKey.objects.all()] == [CANARY]
    assert EncryptionKey.objects.problems() == []
    settings.ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    assert EncryptionKey.objects.problems() == []
    settings.ENCRYPTION_KEYS = {"new": NEW}
    assert EncryptionKey.objects.problems() == ["The encryption key 'old' is missing from ENCRYPTION_KEYS."]
    settings.ENCRYPTION_KEYS = {"old": NEW}
    assert len(EncryptionKey.objects.problems()) == 1
