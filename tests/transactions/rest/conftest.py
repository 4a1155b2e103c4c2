"""The extension `transactions`, for tokens that may send."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.api import Api
from tests.transactions.factories import FAMILY
from tokens import authentication
from tokens.writes import issue


@pytest.fixture(autouse=True)
def extension(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.EXTENSIONS = ["transactions"]
    # A token is verified once, however slow the machine is.
    monkeypatch.setattr(authentication, "CACHE_SECONDS", 600)


@pytest.fixture
def sender(user: User) -> Api:
    """A client whose token may send with every relayer, and requested what the factories create."""
    return Api(issue(name="payments", user=user, scopes=["send"], family=FAMILY)[1])
