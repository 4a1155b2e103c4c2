"""No secret that was sent is found anywhere afterwards: not in a table, a log, a page, an answer or a task."""

from __future__ import annotations

import logging

import pytest
from django.db import connection
from django.test import Client

from signers.models import Signer
from tests.api import Api
from tests.conftest import Log
from tests.signers.examples import CONFIGS, secrets


def dump() -> str:
    """Every value of every table, as text."""
    text = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            text += [repr(bytes(value) if isinstance(value, memoryview) else value) for row in cursor for value in row]
    return "\n".join(text)


def found_in(text: str) -> list[str]:
    return [secret for secret in secrets() if secret in text]


def create_all(api: Api) -> list[str]:
    return [
        api.post("/api/v1/signers", {"id": name, "type": name, "config": config}).text.decode()
        for name, config in CONFIGS.items()
    ]


def test_the_search_finds_what_is_there() -> None:
    assert len(secrets()) >= 10
    assert found_in(f"x{secrets()[0]}y") == [secrets()[0]]


def test_no_table_holds_a_secret(api: Api) -> None:
    create_all(api)
    text = dump()
    assert "https://vault.example.com" in text
    assert found_in(text) == []


def test_no_fault_of_a_bad_request_repeats_a_value(api: Api) -> None:
    for name, config in CONFIGS.items():
        for field in config:
            body = {"type": name, "config": {key: value for key, value in config.items() if key != field} | {"x": "y"}}
            answer = api.post("/api/v1/signers", body)
            assert answer.status == 400
            assert found_in(answer.text.decode()) == []


@pytest.mark.django_db(transaction=True)
def test_no_answer_and_no_line_of_the_log_holds_a_secret(api: Api, log: Log) -> None:
    answers = create_all(api) + create_all(api) + [api.get("/api/v1/signers").text.decode()]
    assert found_in("\n".join(answers)) == []
    assert "POST /api/v1/signers 409" in log.text
    assert found_in(log.text) == []


@pytest.mark.django_db
def test_no_page_of_the_admin_holds_a_secret(admin_client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    pages = []
    for name, config in CONFIGS.items():
        signer = Signer(identifier=name, type=name)
        signer.set_config(config)
        signer.save()
        url = f"/admin/signers/signer/{signer.pk}"
        pages += [admin_client.get(f"{url}/change/"), admin_client.get(f"{url}/history/")]
        action = {"action": "verify_selected", "_selected_action": [signer.pk]}
        if name == "plain":
            pages.append(admin_client.post("/admin/signers/signer/", action, follow=True))
        pages.append(admin_client.get(f"{url}/delete/"))
    pages += [admin_client.get("/admin/signers/signer/"), admin_client.get("/admin/")]
    assert {page.status_code for page in pages} == {200}
    assert found_in("\n".join(page.content.decode() for page in pages)) == []
    assert found_in(caplog.text) == []
    assert found_in(dump()) == []


@pytest.mark.django_db
def test_a_form_that_is_refused_gives_no_secret_back(admin_client: Client) -> None:
    for name, config in CONFIGS.items():
        form = {f"{name}__{field}": value if isinstance(value, str) else str(value) for field, value in config.items()}
        page = admin_client.post("/admin/signers/signer/add/", {"identifier": "", "type": name, **form})
        assert page.status_code == 200
        assert found_in(page.content.decode()) == []
    assert not Signer.objects.exists()


def test_a_signer_shows_no_secret_of_itself() -> None:
    signer = Signer(identifier="a", type="provider_e")
    signer.set_config(CONFIGS["provider_e"])
    assert found_in(f"{signer!r} {signer} {signer.__dict__!r}") == []
