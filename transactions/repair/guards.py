"""The relayers of lanes: what is in flight depends on their accounts and signers."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, QuerySet

from relayer_service.background.tasks import push
from relayer_service.database.clock import DatabaseNow
from relayer_service.database.prefixes import starts_with
from relayer_service.storage.newest import newest_with
from relayers.guards import GUARDED_COLUMNS, Guard, MissingFunds
from transactions.lanes.wake import wake_lane
from transactions.models import IS_HALTED, IS_IN_STATUS, IS_OPEN, NEEDS_FUNDS, Lane, Status, TopUp, Transaction
from transactions.records.representation import optional_timestamp

NODE_COLUMNS = {"custom_rpc_urls", "network", "chain_id"}
# A turn of a lane that has read other values of these commits nothing.
PLANNED_COLUMNS = {
    *GUARDED_COLUMNS, *NODE_COLUMNS, "policies", "paused", "system_disabled", "spending", "private_rpc_urls",
    "private_fallback_blocks", "reserve_text",
}  # fmt: skip
TOPPED_UP = (
    "Relayer {} is being topped up. Until that is final, its signer, network and address cannot be changed, and it "
    "cannot be deleted."
)


class LaneGuard(Guard):
    def refusals(self, relayers: Collection[int]) -> dict[int, str]:
        lanes = Lane.objects.filter(relayer__in=relayers)
        if connection.in_atomic_block:
            # In full: accepting a transaction locks the lane for its foreign key, and waits.
            list(lanes.select_for_update().order_by("pk").values_list("pk"))
        rows = Transaction.objects.filter(IS_OPEN, lane__in=lanes).order_by("lane__relayer")
        counts = rows.values_list("lane__relayer", "lane__relayer__identifier").annotate(count=Count("pk"))
        topped_up = TopUp.objects.filter(relayer__in=relayers, state=TopUp.State.OPEN)
        names = topped_up.values_list("relayer", "relayer__identifier")
        refused = {relayer: TOPPED_UP.format(name) for relayer, name in names}
        return refused | {relayer: _refusal(name, count) for relayer, name, count in counts}

    def note_change(self, relayers: Collection[int], columns: Collection[str]) -> None:
        if "funding_relayer" in columns:
            # The next sweep decides again.
            unresolved = TopUp.objects.filter(relayer__in=relayers)
            unresolved.filter(state=TopUp.State.BLOCKED).delete()
            unresolved.filter(due_at__isnull=False).update(due_at=None)
        if not PLANNED_COLUMNS.intersection(columns):
            return
        lanes = Lane.objects.filter(relayer__in=relayers)
        # In the order in which others lock them.
        keys = list(lanes.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
        changes: dict[str, object] = {"lease": None, "due_at": DatabaseNow()}
        if NODE_COLUMNS.intersection(columns):
            changes["watch"] = None
        if GUARDED_COLUMNS.keys() & set(columns):
            # The next transaction is sent through the lane of the account that the relayer has by then.
            changes["relayer"] = None
        Lane.objects.filter(pk__in=keys).update(**changes)
        open_rows = Transaction.objects.filter(IS_OPEN, lane__in=keys)
        for key in open_rows.order_by("lane").values_list("lane", flat=True).distinct():
            push(wake_lane, key)

    def has_sent(self, address: str) -> bool:
        return Lane.objects.filter(starts_with("address", address)).exists()

    def status(self, relayer: int) -> dict[str, Any]:
        lane: Lane | None = Lane.objects.filter(relayer=relayer).first()
        if lane is None:
            return {}
        own = Transaction.objects.filter(IS_IN_STATUS[Status.CONFIRMED], kind=Transaction.Kind.REQUEST)
        confirmed = newest_with(own, "relayer_id", relayer).first()
        unmined = Transaction.objects.filter(IS_OPEN, lane=lane).exclude(status=Status.MINED)
        found: dict[str, Any] = {
            "pending_transactions_count": unmined.count(),
            "last_confirmed_transaction_timestamp": optional_timestamp(confirmed and confirmed.finished_at),
        }
        return found if lane.next_nonce is None else {**found, "nonce": str(lane.next_nonce)}

    def missing_funds(self, relayers: Collection[int]) -> dict[int, MissingFunds]:
        columns = ("relayer", "missing_text", "waiting", "waiting_details")
        lanes = Lane.objects.filter(NEEDS_FUNDS, relayer__in=relayers).only(*columns)
        return {lane.relayer_id: lane.missing for lane in lanes if lane.relayer_id}

    def waiting_for_funds(self) -> QuerySet[Any, Any]:
        lanes = Lane.objects.filter(NEEDS_FUNDS, relayer__isnull=False)
        return lanes.values("relayer")

    def halted_chains(self) -> dict[int, datetime]:
        lanes = Lane.objects.filter(IS_HALTED).order_by("-watch__halted_since")
        return dict(lanes.values_list("chain_id", "watch__halted_since").distinct())


def _refusal(relayer: str, count: int) -> str:
    noun = "an open transaction" if count == 1 else f"{count:,} open transactions"
    return (
        f"Relayer {relayer} has {noun}. Until all are final, its signer, network and address cannot be changed, "
        "and it cannot be deleted."
    )
