"""What answers show of a resource, by the fields that its serializer declares."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from relayer_service.api import page_sql
from relayer_service.api.resource_serializers import ResourceSerializer
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


def shown(*row: Any) -> Any:
    return BoxSerializer.converter()(row)


def written(value: Any) -> str:
    return orjson.dumps(value).decode()


def test_a_row_is_written_in_the_order_of_the_fields_and_json_as_it_is_stored() -> None:
    columns = "identifier title owner__identifier count is_open size_width size_height tag_list tag"
    assert " ".join(BoxSerializer.columns()) == columns
    tag = '{"name": 340282366920938463463374607431768211455}'
    assert written(shown("box-1", "big", "owner-1", 3, True, "1", "2", '[{"name": "a"}]', tag)) == (
        '{"id":"box-1","title":"BIG","owner_id":"owner-1","count":3,"is_open":true,'
        f'"size":{{"width":"1","height":"2"}},"tags":[{{"name": "a"}}],"tag":{tag}}}'
    )


def test_what_is_empty_is_left_out_unless_it_is_required() -> None:
    assert shown("", "", None, None, None, "", "", "[]", "{}") == {"id": "", "title": ""}
    box = {"id": "box-1", "title": "BIG", "count": 0, "is_open": False, "size": {"width": "", "height": "0"}}
    assert shown("box-1", "big", None, 0, False, "", "0", "[]", "{}") == box
    for text in ("[]", "{}"):
        found = shown(text, text, text, None, None, "", "", "[]", "{}")
        assert found == {"id": text, "title": text, "owner_id": text}


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
    _, (row,) = page_sql.table_page(Relayer.objects.all(), RelayerSerializer.columns(), 0, 10)
    listed = RelayerSerializer.converter()(row)
    assert orjson.loads(written(listed)) == orjson.loads(written(RelayerSerializer(relayer).data))


@pytest.mark.django_db
def test_a_page_is_one_of_the_whole_table() -> None:
    with pytest.raises(AssertionError, match="the total counts the whole table"):
        page_sql.table_page(Relayer.objects.filter(paused=True), ("identifier",), 0, 10)
