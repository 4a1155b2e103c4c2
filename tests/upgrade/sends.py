"""Send transactions with the code of one release: keys and bodies in, statuses and IDs out."""

from __future__ import annotations

import json
import sys

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402

import relayer_service  # noqa: E402
from relayers.models import Relayer  # noqa: E402
from tests.api import Api  # noqa: E402
from tests.relayers import factories  # noqa: E402
from tests.transactions.rest.requests import PATH  # noqa: E402
from tokens.writes import issue  # noqa: E402

user, _ = User.objects.get_or_create(username="sender")
if not Relayer.objects.exists():
    factories.relayer()
api = Api(issue(name="payments", user=user, scopes=["send"])[1])
answers = []
for key, body in json.loads(sys.argv[1]):
    answer = api.post(PATH, body, headers={"Host": "localhost", "Idempotency-Key": key})
    answers.append([answer.status, (answer.body["data"] or {}).get("id")])
print(json.dumps([*answers, [relayer_service.__file__]]))
