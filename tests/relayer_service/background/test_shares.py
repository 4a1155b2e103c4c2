"""Shares of the web threads, and what is answered when one is used up."""

from contextlib import ExitStack, nullcontext
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client

from relayer_service.background.shares import CALLS, SIGNING_IN, WAITING, WAITING_BESIDE_CALLS, Busy, ThreadShare
from tests.api import Api
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, PATH
from tests.relayers import factories


def used_up(stack: ExitStack, share: ThreadShare) -> None:
    for _ in range(share.size):
        stack.enter_context(share.occupied())


@pytest.mark.parametrize(("threads", "sizes"), [(1, [1, 1, 1]), (4, [3, 1, 1]), (64, [48, 16, 4])])
def test_a_share_grows_with_the_threads(settings: Any, threads: int, sizes: list[int]) -> None:
    settings.WEB_THREADS = threads
    assert [share.size for share in (WAITING, WAITING_BESIDE_CALLS, SIGNING_IN)] == sizes
    # Calls that hang leave threads for signing, where there are any.
    with ExitStack() as stack:
        used_up(stack, CALLS)
        with nullcontext() if threads > 1 else pytest.raises(Busy), WAITING_BESIDE_CALLS.occupied():
            pass


def test_a_share_has_room_again_when_a_thread_leaves_it(settings: Any) -> None:
    settings.WEB_THREADS = 4
    whole = ThreadShare(Fraction(1, 2))
    part = ThreadShare(Fraction(1, 2), within=whole)
    with pytest.raises(RuntimeError), part.occupied():
        raise RuntimeError
    with part.occupied(), part.occupied():
        with pytest.raises(Busy), whole.occupied():
            pass
        with pytest.raises(Busy), part.occupied():
            pass
    with ExitStack() as stack:
        used_up(stack, whole)
        with pytest.raises(Busy), part.occupied():
            pass
    with ExitStack() as stack:
        used_up(stack, part)


def test_a_call_is_too_many_when_all_threads_for_it_wait(api: Api) -> None:
    factories.relayer()
    with ExitStack() as stack:
        used_up(stack, CALLS)
        answer = api.post(PATH, CALL)
        assert (answer.status, answer.body) == (429, bodies.failure("Too Many Requests"))
        assert answer.headers["retry-after"] == "1"
        assert api.get("/api/v1/relayers").status == 200
    assert api.post(PATH, CALL).status == 200


def test_a_page_that_calls_nodes_is_unavailable_when_all_its_threads_wait(admin_client: Client) -> None:
    relayer = factories.relayer()
    admin_client.raise_request_exception = False
    with ExitStack() as stack:
        used_up(stack, WAITING_BESIDE_CALLS)
        response = admin_client.get(f"/admin/relayers/relayer/{relayer.pk}/status/")
    assert (response.status_code, response.content, response["Retry-After"]) == (503, b"Service Unavailable", "5")


@pytest.mark.django_db
def test_signing_in_is_limited_and_returns_retry_after(client: Client, django_user_model: Any) -> None:
    django_user_model.objects.create_superuser("carol", password="a-password-for-tests")
    form = {"username": "carol", "password": "a-password-for-tests", "next": "/admin/"}
    with ExitStack() as stack:
        used_up(stack, SIGNING_IN)
        refused = client.post("/admin/login/", form)
        assert (refused.status_code, refused["Retry-After"]) == (503, "5")
        assert "Too many people are signing in right now." in refused.content.decode()
        assert client.get("/admin/login/").status_code == 200
    assert client.post("/admin/login/", form).status_code == 302
