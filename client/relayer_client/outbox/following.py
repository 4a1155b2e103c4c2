"""Read what became of the rows that the service has accepted."""

import logging
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db.models import F
from django.utils import timezone

from relayer_client import Client, Relayer, Transaction, errors
from relayer_client.checks import InvalidId
from relayer_client.outbox.claims import Claim
from relayer_client.outbox.models import OutboxQuerySet, OutboxTransaction, Status
from relayer_client.outbox.pauses import poll_pause, retry_pause
from relayer_client.outbox.restores import Restores

logger = logging.getLogger("relayer_client.outbox")

BATCH_ROWS = 500
# So many transactions of a relayer are looked for in one page of its newest ones, fewer are read one by one.
PAGE_FROM_ROWS = 10
MAX_PAGE_ROWS = 1000
CHECK = "Check how it ended."
DELETED = "it was deleted TRANSACTIONS_KEEP_DAYS after its end"
FORGOTTEN = f"The service no longer has this transaction: an older database was restored, or {DELETED}. {CHECK}"


def follow(client: Client, rows: OutboxQuerySet, restores: Restores) -> Claim:
    """Update accepted rows that are due; those of a relayer that cannot be read are due again later."""
    claim = Claim(rows.open(), BATCH_ROWS)
    changed: list[OutboxTransaction] = []
    for relayer_id, group in groupby(sorted(claim.rows, key=attrgetter("relayer")), attrgetter("relayer")):
        if claim.is_late:
            break
        waiting = list(group)
        of_relayer, now = claim.left.filter(relayer=relayer_id), timezone.now()
        try:
            relayer = client.relayer(relayer_id)
            found = read(relayer, {row.transaction_id for row in waiting}, claim)
        except (errors.RelayerClientError, InvalidId) as error:
            if isinstance(error, InvalidId) or is_missing(relayer, error):
                logger.error("Transactions of %s are uncertain: %s", relayer_id, error)
                uncertain = {"status": Status.UNCERTAIN, "status_reason": f"{error} {CHECK}", "attempts": 0}
                of_relayer.update(claim=None, updated_at=now, next_attempt_at=now, **uncertain)
                continue
            logger.warning("Transactions of %s cannot be read: %s", relayer_id, error)
            later = now + retry_pause(min(row.attempts for row in waiting), error)
            unread = {"status_reason": f"Its status cannot be read. {error}", "attempts": F("attempts") + 1}
            of_relayer.update(claim=None, next_attempt_at=later, **unread)
            continue
        if any(found.get(row.transaction_id, row) is None and not restores.explain(row) for row in waiting):
            restores.report(relayer_id, f"an accepted transaction is missing, unless {DELETED}")
        for row in waiting:
            if row.transaction_id in found:
                for name, value in progress(row, found[row.transaction_id]).items():
                    setattr(row, name, value)
                changed.append(row)
    # First: if this process is killed, the rows are read again.
    restores.save()
    claim.save_all(changed)
    if claim.is_late:
        claim.release()
    return claim


def is_missing(relayer: Relayer, error: Exception) -> bool:
    """Return whether a relayer does not exist. With a token that is limited to others, it cannot be read, either."""
    if not is_not_found(error):
        return False
    try:
        relayer.dry_run(to=f"0x{'00' * 20}")
    except errors.RelayerClientError as refusal:
        return is_not_found(refusal)
    return False


def is_not_found(error: Exception) -> bool:
    return isinstance(error, errors.NotFound) and error.code == "not_found"


def read(relayer: Relayer, wanted: set[str], claim: Claim) -> dict[str, Transaction | None]:
    """Return transactions of a relayer by their IDs; None is one that the service no longer has.

    A claim that is late ends it: what is read must be saved before others take over.
    """
    found: dict[str, Transaction | None] = {}
    if len(wanted) >= PAGE_FROM_ROWS:
        # Others may have been sent since, by this outbox and by other programs.
        per_page = min(5 * len(wanted), MAX_PAGE_ROWS)
        page = next(iter(relayer.list_transactions(per_page=per_page).pages()))
        found = {each.id: each for each in page.items if each.id in wanted}
    for identifier in sorted(wanted - found.keys()):
        if claim.is_late:
            break
        try:
            found[identifier] = relayer.get_transaction(identifier)
        except (errors.NotFound, InvalidId) as error:
            if isinstance(error, errors.NotFound) and not is_not_found(error):
                raise
            found[identifier] = None
    if None in found.values() or not wanted:
        # With a token that is limited to other relayers nothing is found, either: this raises then.
        relayer.list_transactions(per_page=1).first()
    return found


def progress(row: OutboxTransaction, found: Transaction | None) -> dict[str, Any]:
    """Return the columns that change with what the service returned."""
    now = timezone.now()
    if found is None:
        logger.error("%s is uncertain: %s", row.key, FORGOTTEN)
        return {"status": Status.UNCERTAIN, "status_reason": FORGOTTEN, "attempts": 0, "next_attempt_at": now}
    attempts = row.attempts + 1 if found.status == row.status else 0
    return {
        "status": found.status,
        "status_reason": found.status_reason or "",
        "hash": found.hash or "",
        "attempts": attempts,
        "next_attempt_at": now if found.is_final else now + poll_pause(attempts),
    }
