"""Lanes, and what is known of the chains that they send to."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from relayer_service.database.clock import DatabaseNow
from relayer_service.database.literals import with_literals
from relayer_service.database.prefixes import prefix_index
from relayer_service.storage.leases import Leased
from relayers.guards import MissingFunds
from relayers.models import Relayer

AT_LEAST = "At least "
# Of a lane that a worker has: only then its chain is read.
IS_HALTED = Q(watch__halted_since__isnull=False, lease__isnull=False, due_at__gt=DatabaseNow())
# Of lanes that wait: what was missing before their nodes or signer failed stays so until it is read again.
NEEDS_FUNDS = with_literals(~Q(waiting="")) & (Q(waiting="funds") | ~Q(missing_text=""))
NONCE_HELP = "The account's transaction count on the chain"


class Hold(models.TextChoices):
    """Why a lane assigns no nonces to requests. A lane can have several holds; each ends on its own."""

    OPERATOR = "operator", "Held by staff"
    LOST_COMMITS = "lost_commits", "The database may have lost commits"
    EXTERNAL = "external", "The account was used elsewhere"
    CHAIN = "chain", "The chain was replaced"


class Waiting(models.TextChoices):
    """What a lane waits for. Unlike a hold it ends by itself: every turn tries again."""

    FUNDS = "funds", "Waiting for funds"
    SIGNER = "signer", "The signer fails"
    NODES = "nodes", "No node answers"


class ChainWatch(models.Model):
    """What is known of a chain through one set of nodes, shared by the lanes that use them."""

    chain_id = models.PositiveBigIntegerField()
    nodes_digest = models.CharField(max_length=64, help_text="A hash of the sorted URLs, which may contain keys.")
    head_number = models.PositiveBigIntegerField(null=True)
    head_at = models.DateTimeField(null=True, help_text="When a new head block was last read.")
    halted_since = models.DateTimeField(
        null=True, help_text="The time of its last block, if that is too old although nodes answer."
    )
    # A block at finality depth. Another one at its height is logged; another genesis block means another chain.
    anchor_number = models.PositiveBigIntegerField(null=True)
    anchor_hash = models.CharField(max_length=66, blank=True)
    genesis_hash = models.CharField(max_length=66, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["chain_id", "nodes_digest"], name="watch_chain_and_nodes")]

    def __str__(self) -> str:
        return f"chain {self.chain_id}"


class Lane(Leased):
    """The nonce sequence of one account on one chain. Only the holder of its lease assigns nonces and signs."""

    chain_id = models.PositiveBigIntegerField("chain ID")
    address = models.CharField(max_length=42)
    relayer = models.OneToOneField(Relayer, on_delete=models.SET_NULL, null=True, related_name="lane")
    watch = models.ForeignKey(ChainWatch, on_delete=models.PROTECT, null=True, related_name="+")
    # `due_at` is the end of the lease, or the time before which a released lane is not claimed.
    due_at = models.DateTimeField(default=DatabaseNow, editable=False)
    # +1 when a local development chain is replaced: nonces start over.
    epoch = models.PositiveIntegerField(default=0)
    first_nonce = models.PositiveBigIntegerField(null=True, help_text="The first nonce of this epoch.")
    next_nonce = models.PositiveBigIntegerField(
        null=True, help_text="The lowest nonce that was never committed; empty until the chain was first read."
    )
    chain_nonce = models.PositiveBigIntegerField(null=True, help_text=f"{NONCE_HELP}, in the latest block.")
    chain_block = models.PositiveBigIntegerField(null=True, help_text="The block that `chain_nonce` was read at.")
    final_nonce = models.PositiveBigIntegerField(null=True, help_text=f"{NONCE_HELP}, in a final block.")
    final_block = models.PositiveBigIntegerField(null=True, help_text="The block that `final_nonce` was read at.")
    # Where to search for who used a nonce.
    search_block = models.PositiveBigIntegerField(
        null=True, help_text="Every nonce that was used up to this block belongs to a row, or is below `first_nonce`."
    )
    searched_block = models.PositiveBigIntegerField(
        null=True, help_text="Up to where a search has come that began after `search_block`; empty if there is none."
    )
    searches = models.PositiveSmallIntegerField(default=0, help_text="How often a search came to its end in vain.")
    search_again_at = models.DateTimeField(null=True, help_text="When a search in vain starts over.")
    gap_block = models.PositiveBigIntegerField(
        null=True, help_text="The block since which no row has the next nonce of the chain, with rows above in flight."
    )
    head_since = models.DateTimeField(
        null=True, help_text="Since when the lowest nonce in flight is the next one of the chain."
    )
    window = models.PositiveSmallIntegerField(
        null=True, help_text="The maximum number of nonces in flight; empty for that of the network."
    )
    # By reason, {"since": time, "details": text}. Changed with the row locked (`settlement/nonces/holds.py`).
    holds = models.JSONField(default=dict)
    held_since = models.DateTimeField(null=True, help_text="Since when it has any hold.")
    accepted_below = models.PositiveBigIntegerField(
        null=True, help_text="Staff have accepted that other programs use nonces below it: these hold nothing."
    )
    seal_below = models.PositiveBigIntegerField(
        null=True, help_text="After lost commits, every nonce below is closed before a request gets one."
    )
    database_identity = models.CharField(
        max_length=64, blank=True, help_text="The database server and timeline that its last nonce was committed on."
    )
    waiting = models.CharField(max_length=16, blank=True, choices=Waiting)
    waiting_since = models.DateTimeField(null=True)
    waiting_details = models.TextField(blank=True)
    missing_text = models.CharField(
        "missing funds", max_length=78, blank=True, default="", db_default="", help_text="In wei, if that is known."
    )
    actions = models.PositiveIntegerField(
        default=0, db_default=0, help_text="+1 with every requested action: the worker that has the lane polls it."
    )

    generation = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="+1 with every commit of signed attempts. It falls if a backup is restored."
    )
    witness = models.CharField(
        max_length=32, blank=True, default="", db_default="", help_text="Where `witness.py` stores its generation."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["chain_id", "address"], name="lane_account"),
            models.CheckConstraint(
                condition=Q(holds={}, held_since=None) | (~Q(holds={}) & Q(held_since__isnull=False)),
                name="lane_held_since",
            ),
        ]
        indexes = [
            models.Index("held_since", name="lane_held", condition=Q(held_since__isnull=False)),
            models.Index("waiting_since", name="lane_waiting", condition=~Q(waiting="")),
            prefix_index("address", name="lane_address_prefix", key="id"),
        ]

    def __str__(self) -> str:
        return f"{self.address} on chain {self.chain_id}"

    @property
    def missing(self) -> MissingFunds:
        """What is missing for its transactions that wait for funds; nothing if it waits for nothing."""
        amount = int(self.missing_text) if self.waiting and self.missing_text else None
        # Of what was read before its nodes or signer failed, only the amount is known.
        is_minimum = self.waiting in {Waiting.NODES, Waiting.SIGNER} or self.waiting_details.startswith(AT_LEAST)
        return MissingFunds(amount, is_minimum)

    @property
    def needs_funds(self) -> bool:
        """Whether it waits for funds, as far as known: see `NEEDS_FUNDS`."""
        return self.waiting == Waiting.FUNDS or self.missing.amount is not None

    @property
    def halted_since(self) -> datetime | None:
        """Since when its chain has had no new block, if that is too long. Read with its `watch`, while it has work."""
        return self.watch.halted_since if self.watch else None

    @property
    def is_held(self) -> bool:
        return bool(self.holds)
