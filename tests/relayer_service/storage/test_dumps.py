"""Dumps: secrets leave as ciphertext, come back as what they were, and open in their own row alone."""

import json
import traceback
from pathlib import Path

import pytest
from django.core import serializers
from django.core.management import CommandError, call_command
from django.db import connection

from notifications.models import Notification
from relayer_service.storage import counting
from relayer_service.storage.encryption import DecryptionError, seal
from signers.models import Signer

pytestmark = pytest.mark.both_engines

TABLE = "signers_signer"


def make_signer(identifier: str = "a") -> Signer:
    return Signer.objects.create(identifier=identifier, type="plain", secrets={"key": "hunter2"})


def dump(file: Path) -> str:
    call_command("dumpdata", "signers", "notifications", "relayer_service", format=file.suffix[1:], output=str(file))
    return file.read_text()


@pytest.mark.django_db
@pytest.mark.parametrize("suffix", ["json", "xml"])
def test_a_dump_holds_ciphertext_and_loads_to_the_same_rows(tmp_path: Path, suffix: str) -> None:
    make_signer()
    # A plain value that looks like ciphertext is sealed like any other.
    key = seal(b'"hunter3"', "somewhere else").text
    Notification.objects.create(identifier="signed", url="https://example.com", signing_key=key)
    Notification.objects.create(identifier="unsigned", url="https://example.com")
    text = dump(tmp_path / f"dump.{suffix}")
    assert ("hunter" in text, key in text, Signer.objects.get().sealed_secrets.text in text) == (False, False, True)
    unsaved = Signer(identifier="a", type="plain", secrets={"key": "hunter2"})
    assert "hunter" not in serializers.serialize("json", [unsaved])
    Signer.objects.all().delete()
    Notification.objects.all().delete()
    call_command("loaddata", str(tmp_path / f"dump.{suffix}"), verbosity=0)
    assert Signer.objects.get().secrets == {"key": "hunter2"}
    assert list(Notification.objects.values_list("identifier", flat=True)) == ["signed", "unsigned"]
    assert [notification.signing_key for notification in Notification.objects.all()] == [key, None]


@pytest.mark.django_db
def test_a_load_counts_its_rows_and_none_of_what_the_dump_has_counted(tmp_path: Path) -> None:
    make_signer()
    counting.fold()
    assert "relayer_service.rowdelta" in dump(tmp_path / "dump.json")
    Signer.objects.all().delete()
    counting.fold()
    make_signer("b")
    call_command("loaddata", str(tmp_path / "dump.json"), verbosity=0)
    assert counting.compare(connection, TABLE) == counting.Comparison(rows=2, counted=2, wrong=0)


@pytest.mark.django_db
@pytest.mark.parametrize("plain", ["{'key': 'hunter2'}", {"key": "hunter2"}, "hunter2", "1:hunter2", ""])
def test_a_plain_secret_in_a_dump_is_refused_and_never_repeated(tmp_path: Path, plain: object) -> None:
    make_signer()
    file = tmp_path / "dump.json"
    rows = json.loads(dump(file))
    signer = next(row for row in rows if row["model"] == "signers.signer")
    signer["fields"]["secrets"] = plain
    file.write_text(json.dumps(rows))
    Signer.objects.all().delete()
    with pytest.raises(ValueError, match="secrets") as caught:
        call_command("loaddata", str(file), verbosity=0)
    assert str(caught.value) == (
        f"Problem installing fixture '{file}': Could not load signers.Signer(pk={signer['pk']}): "
        "secrets is not ciphertext: plain values cannot be loaded, updated or queried"
    )
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    assert not Signer.objects.exists()


@pytest.mark.django_db
def test_a_secret_that_is_loaded_into_another_row_does_not_open_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_signer()
    file = tmp_path / "dump.json"
    file.write_text(dump(file).replace('"identifier": "a"', '"identifier": "b"'))
    Signer.objects.all().delete()
    with pytest.raises(CommandError, match=r"^Nothing was loaded: 1 secrets cannot be decrypted\.$"):
        call_command("loaddata", str(file))
    assert not Signer.objects.exists()
    # It does not say that anything was installed.
    assert capsys.readouterr().out == ""
    call_command("loaddata", str(file), "--allow-unreadable", verbosity=0)
    reason = (
        "A value encrypted with the key '1' cannot be decrypted: "
        "the key has a different value, or the ciphertext belongs to another row."
    )
    assert capsys.readouterr().err == f"signers.Signer b: secrets: {reason}\n"
    with pytest.raises(DecryptionError) as caught:
        Signer.objects.get(identifier="b").secrets  # noqa: B018
    assert str(caught.value) == reason
