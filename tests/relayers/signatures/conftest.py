"""The extension `signing`, for tokens that may sign."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.api import Api
from tokens.writes import issue


@pytest.fixture(autouse=True)
def extension(settings: Any) -> None:
    settings.EXTENSIONS = ["signing"]


@pytest.fixture
def caller(user: User) -> Api:
    """A client whose token may sign with every relayer."""
    return Api(issue(name="dapp", user=user, scopes=["sign"])[1])
