"""The settings that mypy reads models from: those of the tests, and the apps that the service does not install."""

import sys

from tests.servers import PROJECT
from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

sys.path.append(str(PROJECT / "client"))
INSTALLED_APPS = [*INSTALLED_APPS, "relayer_client.outbox"]
