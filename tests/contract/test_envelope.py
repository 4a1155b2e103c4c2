"""Sections 2.1 and 7: the envelope of every answer, on a resource of the tests' own."""

from tests.api import Api


def test_a_list_answers_the_success_envelope_with_pagination(api: Api) -> None:
    answer = api.get("/api/v1/items")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {
        "data": [],
        "error": "",
        "metadata": {"logs": [], "traces": []},
        "pagination": {"current_page": 1, "per_page": 10, "total_items": 0},
        "success": True,
    }
