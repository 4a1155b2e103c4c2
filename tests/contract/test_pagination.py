"""Sections 4.2 and 8: `page` and `per_page`, as the open points rule them."""

import pytest

from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.sample.models import Item

pytestmark = pytest.mark.both_engines

LOWERED = "per_page was lowered to 1000, the maximum"


def make_items(count: int) -> list[dict[str, str]]:
    """Create items, and return their bodies."""
    Item.objects.bulk_create([Item(identifier=f"item-{n:04}", name=f"Name {n}") for n in range(1, count + 1)])
    return [{"id": f"item-{n:04}", "name": f"Name {n}"} for n in range(1, count + 1)]


def test_a_page_has_ten_items_by_default(api: Api) -> None:
    items = make_items(11)
    answer = api.get("/api/v1/items")
    assert (answer.status, answer.body) == (200, bodies.page(items[:10], total_items=11))


def test_pages_start_at_1_and_the_last_may_be_short(api: Api) -> None:
    items = make_items(5)
    pages = [api.get(f"/api/v1/items?page={number}&per_page=2").body for number in (1, 2, 3)]
    assert pages == [
        bodies.page(items[0:2], current_page=1, per_page=2, total_items=5),
        bodies.page(items[2:4], current_page=2, per_page=2, total_items=5),
        bodies.page(items[4:5], current_page=3, per_page=2, total_items=5),
    ]


def test_page_0_is_page_1(api: Api) -> None:
    items = make_items(3)
    answer = api.get("/api/v1/items?page=0&per_page=2")
    assert (answer.status, answer.body) == (200, bodies.page(items[:2], current_page=1, per_page=2, total_items=3))


def test_per_page_0_gives_no_items_and_the_true_total(api: Api) -> None:
    make_items(3)
    for query, page in {"": 1, "&page=0": 1, "&page=7": 7, "&page=" + "9" * 400: int("9" * 400)}.items():
        answer = api.get(f"/api/v1/items?per_page=0{query}")
        assert (answer.status, answer.body) == (200, bodies.page([], current_page=page, per_page=0, total_items=3))


def test_a_page_past_the_end_is_empty_and_names_itself_exactly(api: Api) -> None:
    make_items(2)
    for page in (3, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64 + 1, 10**18 - 1, 10**18, int("9" * 400)):
        answer = api.get(f"/api/v1/items?page={page}&per_page=2")
        assert (answer.status, answer.body) == (200, bodies.page([], current_page=page, per_page=2, total_items=2))


def test_a_page_of_5000_digits_is_answered_to_the_digit(api: Api) -> None:
    make_items(1)
    digits = "12345" * 1000
    answer = api.get(f"/api/v1/items?page={digits}")
    assert answer.status == 200
    assert answer.text.decode() == (
        '{"data":[],"error":"","metadata":{"logs":[],"traces":[]},'
        f'"pagination":{{"current_page":{digits},"per_page":10,"total_items":1}},"success":true}}'
    )


def test_leading_zeros_do_not_change_a_number(api: Api) -> None:
    items = make_items(3)
    answer = api.get(f"/api/v1/items?page={'0' * 3000}2&per_page={'0' * 3000}2")
    assert (answer.status, answer.body) == (200, bodies.page(items[2:], current_page=2, per_page=2, total_items=3))


def test_a_per_page_above_the_most_is_lowered_and_said_so(api: Api) -> None:
    items = make_items(1001)
    for per_page in ("1001", "9223372036854775808", "9" * 5000):
        answer = api.get(f"/api/v1/items?per_page={per_page}")
        assert answer.status == 200
        assert answer.body == bodies.page(items[:1000], per_page=1000, total_items=1001, logs=[LOWERED])
    answer = api.get("/api/v1/items?page=2&per_page=5000")
    assert answer.body == bodies.page(items[1000:], current_page=2, per_page=1000, total_items=1001, logs=[LOWERED])
    # The maximum itself is not lowered.
    answer = api.get("/api/v1/items?per_page=1000")
    assert (answer.status, answer.body) == (200, bodies.page(items[:1000], per_page=1000, total_items=1001))


@pytest.mark.parametrize("name", ["page", "per_page"])
def test_what_is_no_whole_number_is_a_bad_request(api: Api, name: str) -> None:
    for value in (
        *("", "%2B1", "+1", "-1", "-0", "1.0", "1e1", "1_0", "0x1", "1,0", "%201", "1%20", "1%0A", "1%00", "%00"),
        *("%FF", "%D9%A1", "%EF%BC%91", "%C2%B2", "one", "null", "true", "NaN", "[]", "1;", "-" + "9" * 5000),
    ):
        answer = api.get(f"/api/v1/items?{name}={value}")
        fault = f"{name}: a whole number of at least 0 is required"
        assert (value, answer.status, answer.body) == (value, 400, bodies.bad_request(fault))
    answer = api.get(f"/api/v1/items?{name}=1&{name}=1")
    assert (answer.status, answer.body) == (400, bodies.bad_request(f"{name}: given more than once"))


def test_what_the_api_creates_is_listed_in_the_order_of_creation(api: Api) -> None:
    items = [{"id": identifier, "name": identifier.upper()} for identifier in ("z", "y", "x")]
    assert [api.post("/api/v1/items", item).status for item in items] == [201, 201, 201]
    assert api.get("/api/v1/items").body == bodies.page(items, total_items=3)


def test_a_page_of_more_than_8_mib_is_refused(api: Api) -> None:
    """The longest list of receivers is 45 kB."""
    signer, policies = factories.signer(), {"whitelist_receivers": [factories.ADDRESS] * 1_000}
    for number in range(190):
        factories.relayer(identifier=f"relayer-{number}", signer=signer, policies=policies)
    answer = api.get("/api/v1/relayers?per_page=190")
    fault = "per_page: the page has more than 8388608 bytes: lower per_page"
    assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    pages = [api.get(f"/api/v1/relayers?page={number}&per_page=150").body["data"] for number in (1, 2)]
    assert [relayer["id"] for page in pages for relayer in page] == [f"relayer-{number}" for number in range(190)]
