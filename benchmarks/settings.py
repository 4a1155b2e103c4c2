"""The service as it is measured: the tests' settings, rate limits off, no test middleware."""

from tests.settings import *  # noqa: F403
from tests.settings import MIDDLEWARE

MIDDLEWARE = [name for name in MIDDLEWARE if not name.startswith("tests.")]

# Each of the lists and calls that are measured; a figure is not to be that of a refusal.
RATE_LIMIT_SAMPLE = ""
RATE_LIMIT_LIST_RELAYERS = ""
RATE_LIMIT_RPC = ""
