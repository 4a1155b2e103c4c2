"""The extension `lifecycle`, for tokens that may."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.api import Api
from tokens.writes import issue


@pytest.fixture(autouse=True)
def lifecycle(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle"]


@pytest.fixture
def manager(user: User) -> Api:
    """A client whose token may manage the fleet."""
    return Api(issue(name="terraform", user=user, scopes=["manage"])[1])
