import ipaddress

import pytest
from pytest_django import Settings

from tests.notifications.clock import clock

__all__ = ["clock"]


@pytest.fixture(autouse=True)
def settings_of_alerts(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    settings.PUBLIC_URL = "https://relayers.example.com"
    settings.EXTENSIONS = ["transactions"]
