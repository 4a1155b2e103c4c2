"""`rotate_keys`: every secret under the new key, whatever happens on the way."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from relayer_service.models import EncryptionKey
from signers.models import Signer
from tests import processes
from tests.servers import PROJECT

OLD, NEW = bytes(range(32)), bytes(range(100, 132))
BOTH = {"new": NEW, "old": OLD}


def make(count: int) -> None:
    signers = []
    for n in range(count):
        signer = Signer(identifier=f"signer-{n}", type="plain")
        signer.set_config({"key": f"key {n}"})
        signers.append(signer)
    Signer.objects.bulk_create(signers, batch_size=1000)


def under(key_id: str) -> int:
    return Signer.objects.extra(where=["secrets LIKE %s"], params=[f"{key_id}:%"]).count()


def keyring(keys: dict[str, bytes]) -> str:
    return ",".join(f"{name}:{base64.b64encode(key).decode()}" for name, key in keys.items())


def rotate(batch: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "manage.py", "rotate_keys", "--batch", str(batch)]
    environment = processes.environment(ENCRYPTION_KEYS=keyring(BOTH))
    return subprocess.Popen(command, env=environment, cwd=PROJECT, stderr=subprocess.PIPE)


@pytest.mark.django_db
def test_every_secret_is_encrypted_under_the_first_key(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = {"old": OLD}
    EncryptionKey.objects.ensure_canary()
    make(7)
    settings.ENCRYPTION_KEYS = BOTH
    call_command("rotate_keys", batch=3)
    assert (under("old"), under("new")) == (0, 7)
    settings.ENCRYPTION_KEYS = {"new": NEW}
    assert [signer.full_config() for signer in Signer.objects.all()] == [{"key": f"key {n}"} for n in range(7)]
    assert EncryptionKey.objects.problems() == []


@pytest.mark.django_db
def test_a_key_is_rotated_while_processes_with_the_settings_before_and_after_run(settings: Settings) -> None:
    """Append, restart, promote, restart, `rotate_keys`, and only then remove it, as docs/runbooks.md says."""
    steps = [{"old": OLD}, {"old": OLD, "new": NEW}, BOTH, {"new": NEW}]
    for before, after in pairwise(steps):
        if after == {"new": NEW}:
            call_command("rotate_keys")
        for keys in (before, after):
            settings.ENCRYPTION_KEYS = keys
            # As the heartbeat of a worker does.
            EncryptionKey.objects.ensure_canary()
            number = Signer.objects.count()
            Signer.objects.create(identifier=f"signer-{number}", type="plain", secrets={"key": f"key {number}"})
        for keys in (before, after):
            settings.ENCRYPTION_KEYS = keys
            stored = [signer.full_config() for signer in Signer.objects.order_by("sequence")]
            assert stored == [{"key": f"key {n}"} for n in range(len(stored))]
            assert EncryptionKey.objects.problems() == []
    assert (under("old"), under("new")) == (0, 6)


@pytest.mark.django_db
def test_a_second_run_has_nothing_to_do(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.ENCRYPTION_KEYS = BOTH
    make(2)
    before = [signer.__dict__["secrets"] for signer in Signer.objects.all()]
    call_command("rotate_keys")
    assert [signer.__dict__["secrets"] for signer in Signer.objects.all()] == before
    assert "re-encrypted 0 of 2 rows" in capsys.readouterr().err


@pytest.mark.django_db
def test_what_cannot_be_read_is_named_and_the_rest_is_done(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = {"lost": OLD}
    make(1)
    settings.ENCRYPTION_KEYS = {"old": OLD}
    Signer.objects.create(identifier="readable", type="plain", secrets={"key": "x"})
    settings.ENCRYPTION_KEYS = BOTH
    with pytest.raises(CommandError) as caught:
        call_command("rotate_keys")
    assert str(caught.value) == (
        "Could not decrypt, left unchanged:\n"
        "  signers.Signer signer-0: The encryption key 'lost' is missing from ENCRYPTION_KEYS."
    )
    assert (under("lost"), under("new")) == (1, 1)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_run_that_is_killed_is_finished_by_the_next(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = {"old": OLD}
    make(2_000)
    settings.ENCRYPTION_KEYS = BOTH
    # In many steps, so that it is killed in the middle however late this is seen.
    first = rotate(10)
    while not under("new"):
        assert first.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    first.kill()
    first.communicate()
    done = under("new")
    assert 0 < done < 2_000
    # In the middle, all of them can be read.
    assert sum(signer.secrets["key"].startswith("key ") for signer in Signer.objects.iterator()) == 2_000
    second = rotate(1000)
    _, told = second.communicate(timeout=300)
    assert second.returncode == 0, told
    assert f"re-encrypted {2_000 - done} of 2000 rows".encode() in told, told
    assert (under("old"), under("new")) == (0, 2_000)
    settings.ENCRYPTION_KEYS = {"new": NEW}
    assert {signer.secrets["key"] for signer in Signer.objects.iterator()} == {f"key {n}" for n in range(2_000)}
