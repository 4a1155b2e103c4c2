"""Fleet files: an app adds a section to them with a setting, and no other app changes."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from relayer_service.fleet.planning import plan
from relayer_service.fleet.sections import ConcurrentChange
from tests.relayers.config_files import SIGNER, SPARSE, document, faults, load
from tests.sample.models import Item

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def items(settings: Settings) -> None:
    settings.FLEET_SECTIONS = [*settings.FLEET_SECTIONS, "tests.sample.config.ItemSection"]


def test_a_section_of_another_app_is_loaded_with_the_others(tmp_path: Path) -> None:
    content = {"items": [{"id": "a", "name": "A", "relayer_id": "relayer-1"}], **document(SPARSE)}
    assert load(content, tmp_path) == (
        [
            "signer signer-1: created",
            "webhook hook-1: created",
            "relayer relayer-1: created",
            "item a: created",
            "4 created, 0 updated, 0 unchanged.",
        ],
        [],
    )
    assert Item.objects.get().name == "A"


def test_its_rows_are_updated_by_id_and_dumped_after_the_others(tmp_path: Path) -> None:
    load({"items": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}, tmp_path)
    assert load({"items": [{"id": "a", "name": "$${A}"}, {"id": "b", "name": "B"}]}, tmp_path)[0] == [
        "item a: updated (name)",
        "item b: unchanged",
        "0 created, 1 updated, 1 unchanged.",
    ]
    assert list(Item.objects.values_list("identifier", "name")) == [("a", "${A}"), ("b", "B")]
    output = io.StringIO()
    call_command("dump_config", stdout=output, stderr=io.StringIO())
    others: list[tuple[str, list[Any]]] = [
        (name, []) for name in ("signers", "notifications", "relayers", "fee_tokens")
    ]
    items = [{"id": "a", "name": "$${A}"}, {"id": "b", "name": "B"}]
    assert list(json.loads(output.getvalue()).items()) == [*others, ("items", items)]


def test_its_faults_come_after_those_of_the_others(tmp_path: Path) -> None:
    entries = [
        {"id": "a", "name": 5, "relayer_id": "ghost"},
        {"id": "b", "name": "B", "relayer_id": "relayer-1"},
        {"id": "b", "name": "B"},
    ]
    # What refers to a relayer that has a fault has none for that.
    relayer = SPARSE | {"network": "nowhere"}
    assert faults({"items": entries, "signers": [SIGNER], "relayers": [relayer]}, tmp_path) == [
        "relayers[0].network: unknown network: custom RPC URLs and a chain ID are required",
        "items[0].name: a string is required",
        "items[0].relayer_id: there is no relayer with this id in the file or in the service",
        "items[2].id: duplicate id",
    ]
    sections = "signers, notifications, relayers, fee_tokens and items"
    assert faults([], tmp_path) == [f"an object with some of {sections} is required"]


def test_its_rows_are_not_overwritten_where_they_were_changed_meanwhile(tmp_path: Path) -> None:
    load({"items": [{"id": "a", "name": "A"}]}, tmp_path)
    planned = plan({**document(SPARSE), "items": [{"id": "a", "name": "Mine"}]})
    Item.objects.update(name="Theirs")
    with pytest.raises(ConcurrentChange):
        planned.apply()
    assert Item.objects.get().name == "Theirs"
