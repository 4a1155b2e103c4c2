"""The relayer of a request to send, as far as accepting depends on it, and the spending policy of the token.

Never cached, as `find_relayer`: a cached token may have no rules yet that it has by now.

The statement is written out, as compiling it with the ORM would take half of the time of accepting.
"""

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection

from relayer_service.api.exceptions import NotFound
from relayer_service.database.nul import has_nul
from relayers.models import NOT_FOUND, Relayer, RelayerHealth
from signers.models import Signer
from spending.models import SpendingPolicy

# In the order of the model's fields.
COLUMNS = (
    "sequence", "identifier", "network", "network_type", "chain_id", "address", "signer_id", "paused", "policies",
    "spending_id",
)  # fmt: skip
HEALTH_COLUMNS = ("relayer_id", "system_disabled", "disabled_reason_details")
FIELDS = """
{columns}, health.system_disabled, health.disabled_reason_details, signer.type, spending.rules,
(SELECT spending_id FROM tokens_accesstoken WHERE id = %s)
""".format(columns=", ".join(f"relayer.{column}" for column in COLUMNS))  # noqa: S608  # constants
# How many values are selected.
WIDTH = len(COLUMNS) + 5
TABLES = """
relayers_relayer AS relayer JOIN signers_signer AS signer ON signer.sequence = relayer.signer_id
LEFT JOIN relayers_relayerhealth AS health ON health.relayer_id = relayer.sequence
LEFT JOIN spending_spendingpolicy AS spending ON spending.id = relayer.spending_id
"""
STATEMENT = f"SELECT {FIELDS} FROM {TABLES} WHERE relayer.identifier = %s"  # noqa: S608  # constants


def read_relayer(identifier: str, token_id: int | None = None) -> tuple[Relayer, int | None]:
    """Return a relayer with its signer's type and its spending rules, and the spending policy of a token.

    Other columns of the relayer are read when they are used.
    """
    found = None
    if not has_nul(identifier):
        with connection.cursor() as cursor:
            cursor.execute(STATEMENT, [token_id, identifier])
            found = cursor.fetchone()
    return from_columns(identifier, found)


def from_columns(identifier: str, found: Sequence[Any] | None) -> tuple[Relayer, int | None]:
    """Return the relayer and the token's policy of a row of `STATEMENT`; raise `NotFound` without one."""
    if found is None:
        raise NotFound(NOT_FOUND.format(identifier))
    *values, paused, policies, spending, disabled, details, signer_type, rules, token_spending = found
    values += [bool(paused), json.loads(policies), spending]
    relayer = Relayer.from_db(connection.alias, COLUMNS, values)
    health = [relayer.pk, bool(disabled), details or ""]
    relayer.health = RelayerHealth.from_db(connection.alias, HEALTH_COLUMNS, health)
    relayer.signer = Signer.from_db(connection.alias, ("sequence", "type"), [relayer.signer_id, signer_type])
    if rules is not None:
        policy = SpendingPolicy.from_db(connection.alias, ("id", "rules"), [relayer.spending_id, json.loads(rules)])
        relayer.spending = policy
    return relayer, token_spending
