"""Relayers that follow their signer to the address of another key."""

from django.db.models import QuerySet

from relayer_service.audit.recording import changed, record
from relayer_service.background.tasks import push
from relayer_service.storage.clock import DatabaseNow
from relayers.models import FORGOTTEN, Relayer
from relayers.tasks import check_relayers_now
from signers.followers import Follower
from signers.models import Signer

# Relayers that are read and recorded together.
BATCH_SIZE = 2_000


class RelayerFollower(Follower):
    def rows(self, signer: Signer) -> QuerySet[Relayer]:
        return Relayer.objects.filter(signer=signer).order_by("pk")

    def follow(self, signer: Signer, address: str) -> int:
        """Move relayers, record it, and have them checked at once, as what was read is of another account."""
        moved = 0
        # In the order in which others lock them. None can be added: that needs the lock of the signer.
        rows = self.rows(signer).exclude(address=address).select_for_update(no_key=True)
        while batch := list(rows.only("identifier", "address", "balance_is_low")[:BATCH_SIZE]):
            after = {"address": address, "balance_is_low": False}
            # A check that is under way read the old account, so it loses its lease.
            Relayer.objects.filter(pk__in=[relayer.pk for relayer in batch]).update(
                address=address, due_at=DatabaseNow(), lease=None, **FORGOTTEN
            )
            reason = f"Follows the signer {signer}."
            before = ({name: getattr(relayer, name) for name in after} for relayer in batch)
            record(changed(*row, after, reason) for row in zip(batch, before, strict=True))
            moved += len(batch)
        if moved:
            push(check_relayers_now)
        return moved
