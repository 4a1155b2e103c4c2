"""`manage.py dump_config`: everything but secrets, in a form that `load_config` takes back."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from notifications.models import Notification
from relayer_service.fleet.references import Variables, escape, resolve
from relayers.models import Relayer
from signers.models import Signer
from tests.relayers.config_files import NOTIFICATION, SIGNER, SPARSE, full_relayer, load, rows
from tests.relayers.factories import ADDRESS, KEY
from tests.relayers.stub_nodes import StubNodes
from tests.signers.examples import CONFIGS

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@pytest.fixture
def loaded(db: None, tmp_path: Path, nodes: StubNodes) -> dict[str, Any]:
    """Have a signer of each type, and notifications and relayers of every kind, in the service."""
    signers = [{"id": name, "type": name, "config": config} for name, config in CONFIGS.items()]
    awkward = [SIGNER | {"id": identifier} for identifier in ("a-b", "a_b", "A B", "zürich ${HOME}", "1")]
    hooks = [NOTIFICATION, {"id": "hook-2", "type": "webhook", "url": "https://hooks.example.com/${HOME}"}]
    urls = [
        {"url": f"http://127.0.0.1:{nodes.port}/11155111", "weight": 5},
        {"url": "http://127.0.0.1:1/", "weight": 0},
    ]
    private = {"private_rpc_urls": urls[:1], "private_fallback_blocks": 30}
    relayers = [
        full_relayer(nodes),
        SPARSE | {"id": "relayer-2", "name": "${NAME} $${", "custom_rpc_urls": urls} | private,
        SPARSE | {"id": "relayer-3", "signer_id": "zürich ${HOME}"},
    ]
    content = {"signers": [SIGNER, *signers, *awkward], "notifications": hooks, "relayers": relayers, "fee_tokens": []}
    # Escaped in a file, as this is not a reference.
    load(json.dumps(content).replace("${", "$${").encode(), tmp_path)
    return content


def dump(*options: str) -> tuple[str, str]:
    output, errors = io.StringIO(), io.StringIO()
    call_command("dump_config", *options, stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


def secrets_of(dumped: Any, original: Any) -> dict[str, str]:
    """Return the variables of a dump, with their values in the original."""
    if isinstance(dumped, dict):
        return {key: text for name in dumped for key, text in secrets_of(dumped[name], original.get(name)).items()}
    if isinstance(dumped, list):
        pairs = zip(dumped, original or dumped, strict=True)
        return {key: text for each, other in pairs for key, text in secrets_of(each, other).items()}
    if isinstance(dumped, str) and dumped.startswith("${"):
        return {dumped[2:-1]: original if isinstance(original, str) else json.dumps(original)}
    return {}


def test_a_dump_has_the_shape_of_the_file_without_its_secrets(db: None, tmp_path: Path, nodes: StubNodes) -> None:
    vault = {"id": "vault", "type": "provider_c", "config": CONFIGS["provider_c"]}
    content = {
        "signers": [SIGNER, vault],
        "notifications": [NOTIFICATION],
        "relayers": [full_relayer(nodes), SPARSE | {"id": "relayer-2"}],
    }
    load(content, tmp_path)
    output, errors = dump()
    assert json.loads(output) == {
        "signers": [
            {"id": "signer-1", "type": "plain", "config": {"key": "${SIGNER_SIGNER_1_KEY}"}},
            {
                "id": "vault",
                "type": "provider_c",
                "config": {
                    "address": "https://vault.example.com",
                    "key_name": "c-key",
                    "mount_point": "kv",
                    "namespace": "team",
                    "role_id": "${SIGNER_VAULT_ROLE_ID}",
                    "secret_id": "${SIGNER_VAULT_SECRET_ID}",
                },
            },
        ],
        "notifications": [
            {
                "id": "hook-1",
                "type": "webhook",
                "url": "https://hooks.example.com/relayers",
                "enabled": True,
                "events": ["relayer.*", "transaction.*"],
                "signing_key": "${NOTIFICATION_HOOK_1_SIGNING_KEY}",
            }
        ],
        "relayers": [
            full_relayer(nodes)
            | {
                "custom_rpc_urls": [
                    {"url": "${RELAYER_RELAYER_1_RPC_URL_1}", "weight": 70},
                    {"url": "${RELAYER_RELAYER_1_RPC_URL_2}", "weight": 0},
                ]
            },
            {
                "id": "relayer-2",
                "name": "Relayer 1",
                "network": "sepolia",
                "network_type": "evm",
                "address": ADDRESS,
                "signer_id": "signer-1",
                "paused": False,
            },
        ],
        "fee_tokens": [],
    }
    assert errors == "Wrote 6 variables in place of secrets, without their values.\n"


def test_a_dump_has_variables_for_secrets_with_which_it_loads_as_the_same_service(
    loaded: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    output, errors = dump()
    assert (output, errors) == dump()
    assert "-SECRET" not in output + errors
    assert KEY not in output + errors
    names = re.findall(r'"\$\{(.*?)\}"', output)
    assert [name for name in names if not NAME.fullmatch(name)] == []
    assert len(set(names)) == len(names) == 21
    assert {"SIGNER_A_B_KEY", "SIGNER_A_B_KEY_2", "SIGNER_A_B_KEY_3", "SIGNER_Z_RICH___HOME__KEY"} <= set(names)
    assert "21 variables" in errors

    for name, value in secrets_of(json.loads(output), loaded).items():
        monkeypatch.setenv(name, value)
    before = rows()
    lines, warnings = load(output.encode(), tmp_path)
    assert (lines[-1], warnings, rows()) == ("0 created, 0 updated, 18 unchanged.", [], before)
    for model in (Relayer, Signer):
        model.objects.all().delete()
    load(output.encode(), tmp_path)
    assert dump()[0] == output
    assert {signer.identifier: signer.full_config() for signer in Signer.objects.all()} == {
        entry["id"]: entry["config"] for entry in loaded["signers"]
    }
    # What cannot be decrypted is a variable too.
    settings.ENCRYPTION_KEYS = {"another": bytes(32)}
    assert json.loads(dump()[0])["relayers"][1]["custom_rpc_urls"] == [
        {"url": "${RELAYER_RELAYER_2_RPC_URL_1}", "weight": 5},
        {"url": "${RELAYER_RELAYER_2_RPC_URL_2}", "weight": 0},
    ]


def test_a_password_that_was_accepted_in_a_webhook_url_is_a_variable(db: None) -> None:
    Notification.objects.create(identifier="hook-3", url="https://user:url-SECRET@hooks.example.com/")
    output, errors = dump()
    assert '"url": "${NOTIFICATION_HOOK_3_URL}"' in output
    assert "-SECRET" not in output + errors


EMPTY: dict[str, list[Any]] = {"signers": [], "notifications": [], "relayers": [], "fee_tokens": []}


@pytest.mark.one_engine
@pytest.mark.parametrize("is_link", [False, True])
def test_a_dump_to_a_file_is_read_by_its_owner_alone(db: None, tmp_path: Path, is_link: bool) -> None:
    old, chosen = tmp_path / "old.json", tmp_path / "new.json"
    if is_link:
        chosen.symlink_to(old)
    (old if is_link else chosen).write_text("old")
    chosen.chmod(0o666)
    # Who has the old file open does not read the new one.
    with chosen.open() as reader:
        assert dump("-o", str(chosen))[0] == ""
        assert reader.read() == "old"
    assert (chosen.resolve().stat().st_mode & 0o777, chosen.is_symlink()) == (0o600, is_link)
    assert json.loads(chosen.read_bytes()) == EMPTY
    assert [*tmp_path.glob(".*")] == []


@pytest.mark.one_engine
def test_a_dump_can_go_to_a_device_and_not_to_a_folder(db: None, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    dump("--output", str(pipe))
    assert json.loads(os.read(reader, 1_000_000)) == EMPTY
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(CommandError, match=r"Cannot write .*: Is a directory"):
        dump("--output", str(tmp_path))


@given(st.text(alphabet="${}Aa_ 1", max_size=12))
def test_any_text_is_read_back_as_it_was_written(text: str) -> None:
    assert resolve({"a": [escape(text)]}, {}, {}) == ({"a": [text]}, [])


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from(["key", "key_2", "url"])), max_size=20))
def test_any_ids_have_variables_that_can_be_referred_to(parts: list[tuple[str, str]]) -> None:
    variables = Variables()
    references = [variables.reference("signer", *each) for each in parts]
    environment = {name: name for name in variables.names}
    assert len(environment) == len(parts)
    assert resolve(references, environment, {}) == ([reference[2:-1] for reference in references], [])
