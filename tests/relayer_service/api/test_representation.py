"""What answers show of a resource, by the fields that its serializer declares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from relayer_service.api import lists
from relayer_service.api.representation import ResourceSerializer
from relayer_service.api.serializers import BooleanField, IntegerField, StrictSerializer, StringField
from relayers.models import Relayer
from relayers.serializers.relayers import RelayerSerializer
from tests.relayers import factories


class SizeSerializer(ResourceSerializer):
    width = StringField(source="size_width")
    height = StringField(source="size_height")


class TagSerializer(StrictSerializer):
    name = StringField()


class LabelField(StringField):
    def to_representation(self, value: str) -> str:
        return value.upper()


class BoxSerializer(ResourceSerializer):
    id = StringField(source="identifier")
    title = LabelField()
    owner_id = StringField(source="owner.identifier", required=False)
    count = IntegerField(max_value=9, required=False)
    is_open = BooleanField(required=False)
    size = SizeSerializer(source="*", required=False)
    tags = TagSerializer(many=True, required=False, source="tag_list")
    tag = TagSerializer(required=False)


COLUMNS = (
    "identifier",
    "title",
    "owner__identifier",
    "count",
    "is_open",
    "size_width",
    "size_height",
    "tag_list",
    "tag",
)
FULL = (
    "box-1",
    "big",
    "owner-1",
    3,
    True,
    "1",
    "2",
    '[{"name": "a"}]',
    '{"name": 340282366920938463463374607431768211455}',
)


def shown(row: tuple[Any, ...]) -> Any:
    return BoxSerializer.writer()(row)


def written(value: Any) -> str:
    return orjson.dumps(value).decode()


def test_the_columns_are_those_that_the_fields_name() -> None:
    assert BoxSerializer.columns() == COLUMNS


def test_a_row_is_written_in_the_order_of_the_fields_and_json_as_it_is_stored() -> None:
    assert written(shown(FULL)) == (
        '{"id":"box-1","title":"BIG","owner_id":"owner-1","count":3,"is_open":true,'
        '"size":{"width":"1","height":"2"},"tags":[{"name": "a"}],'
        '"tag":{"name": 340282366920938463463374607431768211455}}'
    )


def test_what_is_empty_is_left_out_unless_it_is_required() -> None:
    row = ("", "", None, None, None, "", "", "[]", "{}")
    assert shown(row) == {"id": "", "title": ""}


def test_zero_and_false_are_not_empty() -> None:
    row = ("box-1", "big", None, 0, False, "", "0", "[]", "{}")
    assert shown(row) == {
        "id": "box-1",
        "title": "BIG",
        "count": 0,
        "is_open": False,
        "size": {"width": "", "height": "0"},
    }


@pytest.mark.parametrize("text", ["[]", "{}"])
def test_text_that_looks_like_empty_json_is_text(text: str) -> None:
    row = (text, text, text, None, None, "", "", "[]", "{}")
    assert shown(row) == {"id": text, "title": text, "owner_id": text}


def test_an_instance_without_what_it_may_refer_to_is_shown() -> None:
    box = SimpleNamespace(
        identifier="box-1", title="é", owner=None, count=None, is_open=None, size_width="", size_height=""
    )
    box.tag_list, box.tag = [{"name": "é"}], {}
    assert written(BoxSerializer(box).data) == '{"id":"box-1","title":"É","tags":[{"name": "é"}]}'


@pytest.mark.django_db
@pytest.mark.parametrize("is_full", [True, False])
def test_a_relayer_is_shown_alike_alone_and_on_a_page(is_full: bool) -> None:
    changes: dict[str, Any] = {}
    if is_full:
        changes = {
            "notification": factories.notification(),
            "policies": {"gas_price_cap": 2**128 - 1},
            "rpc_urls": [{"url": "https://rpc.example.com/key", "weight": 100}],
            "system_disabled": True,
            "disabled_reason_type": "NonceSyncFailed",
            "disabled_reason_details": "No node answered.",
        }
    relayer = factories.relayer(**changes)
    _, (row,) = lists.table_page(Relayer.objects.all(), RelayerSerializer.columns(), 0, 10)
    listed = RelayerSerializer.writer()(row)
    assert orjson.loads(written(listed)) == orjson.loads(written(RelayerSerializer(relayer).data))


@pytest.mark.django_db
def test_a_page_is_one_of_the_whole_table() -> None:
    with pytest.raises(AssertionError, match="the total counts the whole table"):
        lists.table_page(Relayer.objects.filter(paused=True), ("identifier",), 0, 10)
