"""Invariants of lanes, checked in the database and against the chain. Each check returns the violations it finds.

The rows of a lane, its newest attempts and the chain must agree whatever was killed, lost or restored in between.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any, Self

from django.db.models import QuerySet
from eth_utils.crypto import keccak

from chain.networks import networks
from chain.nodes import failover
from chain.nodes.answers import Fault, member_quantity, quantity
from chain.nodes.attempts import Call
from chain.nodes.failover import Node
from chain.transactions.decoding import decode
from chain.transactions.model import NotATransaction, Prices
from relayer_service.background.pools import map_threads
from relayer_service.models import AuditEntry
from transactions.models import FINAL, IS_OPEN, NOOPS, Attempt, Lane, Status, Transaction
from transactions.records.signed_payloads import signed_payload

# The newest nonces of each lane that are checked.
CHECKED_NONCES = 1_000
HASHES_PER_REQUEST = 50
PARALLEL_REQUESTS = 8
CAP = "gas_price_cap"
PRICES = ("gas_price_text", "max_fee_text", "max_priority_fee_text")
SIGNED = ("transaction", "number", "purpose", "payload_version", "nonce", "hash", "raw", "signed_at", *PRICES)
REQUESTED = ("identifier", "nonce", "payload_version", "to", "value_text", "data", *PRICES)
# By how many bumps a no-op may exceed the cap, so that it can outbid what it replaces.
NOOP_BUMPS = 2


@dataclass(frozen=True)
class CheckedLane:
    """A lane as it was read before the chain, with the first nonce to check."""

    lane: Lane
    is_at_rest: bool
    start: int

    @classmethod
    def read(cls, lane: Lane, limit: int = CHECKED_NONCES) -> Self:
        has_open = Transaction.objects.filter(IS_OPEN, lane=lane).exists()
        start = max(lane.first_nonce or 0, (lane.next_nonce or 0) - limit)
        return cls(lane, not has_open and not lane.is_held, start)

    @property
    def end(self) -> int:
        return self.lane.next_nonce or 0

    def rows(self) -> dict[int, Transaction]:
        rows = Transaction.objects.filter(lane=self.lane, epoch=self.lane.epoch, nonce__gte=self.start)
        found = rows.only("identifier", "nonce", "status", "finished_at", "mined_attempt").order_by("nonce")
        return {row.nonce: row for row in found if row.nonce is not None}

    def attempts(self) -> list[Attempt]:
        """Return the attempts at the checked nonces, by nonce and age."""
        # Reading a model of all columns takes as long as decoding what was signed.
        compared = (
            self._attempts()
            .select_related("transaction")
            .only(*SIGNED, *(f"transaction__{name}" for name in REQUESTED))
        )
        return list(compared.order_by("nonce", "signed_at", "pk"))

    def hashes(self) -> list[tuple[int, str]]:
        return list(self._attempts().values_list("nonce", "hash"))

    def _attempts(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(lane=self.lane, epoch=self.lane.epoch, nonce__gte=self.start)


def database_violations(checked: CheckedLane) -> list[str]:
    """Return what contradicts itself in the database: nonces, payloads and prices."""
    rows, attempts = checked.rows(), checked.attempts()
    return [
        *nonce_violations(checked, rows),
        *(text for attempt in attempts for text in signature_violations(checked.lane, attempt)),
        *version_violations(attempts),
        *requeue_violations(rows, attempts),
        *price_violations(attempts),
        *cap_violations(checked.lane, attempts),
    ]


def nonce_violations(checked: CheckedLane, rows: dict[int, Transaction]) -> list[str]:
    """Every nonce below the next one belongs to a row, and no other nonce does; that none has two is a constraint."""
    missing = [nonce for nonce in range(checked.start, checked.end) if nonce not in rows]
    above = [nonce for nonce in rows if nonce >= checked.end]
    return [
        *(f"nonce {nonce} belongs to no row" for nonce in missing),
        *(f"nonce {nonce} of transaction {rows[nonce]} was never assigned" for nonce in above),
    ]


def signature_violations(lane: Lane, attempt: Attempt) -> list[str]:
    """What was signed is what the row requests, or a no-op, for this account, chain and nonce.

    The payload of a version that was replaced is only in its bytes (`version_violations`).
    """
    if attempt.purpose == Attempt.Purpose.EXTERNAL:
        return []
    raw, row = bytes(attempt.raw), attempt.transaction
    try:
        signed = decode(f"0x{raw.hex()}")
    except NotATransaction as error:
        return [f"attempt {attempt} is not a signed transaction: {error}"]
    is_noop = attempt.purpose in NOOPS
    payload = (lane.address, 0, b"") if is_noop else (row.to or None, row.value, bytes(row.data))
    expected = {
        "hash": (f"0x{keccak(raw).hex()}", attempt.hash),
        "chain ID": (signed.chain_id, lane.chain_id),
        "sender": (_folded(signed.sender), _folded(lane.address)),
        "nonce": (signed.nonce, attempt.nonce),
    }
    if is_noop or attempt.payload_version == row.payload_version:
        expected |= {
            "receiver": (_folded(signed.to), _folded(payload[0])),
            "value": (signed.value, payload[1]),
            "data": (f"0x{signed.data.hex()}", f"0x{payload[2].hex()}"),
        }
    return [
        f"attempt {attempt} of transaction {row} has the {name} {found}, not {right}"
        for name, (found, right) in expected.items()
        if found != right
    ]


def version_violations(attempts: Sequence[Attempt]) -> list[str]:
    """All attempts with the same version of a row's payload have the same payload."""
    payloads: dict[tuple[int, int], Any] = {}
    found = []
    signed = [attempt for attempt in attempts if attempt.purpose not in NOOPS and attempt.raw]
    counts = Counter((attempt.transaction_id, attempt.payload_version) for attempt in signed)
    for attempt in signed:
        key = attempt.transaction_id, attempt.payload_version
        if counts[key] == 1:
            # Decoding takes long.
            continue
        try:
            payload = signed_payload(attempt)
        except NotATransaction:
            # A violation of its own.
            continue
        if payloads.setdefault(key, payload) != payload:
            found.append(f"attempt {attempt} has another payload than others of version {attempt.payload_version}")
    return found


def requeue_violations(rows: dict[int, Transaction], attempts: Sequence[Attempt]) -> list[str]:
    """A row has attempts at a second nonce only if the first had finally been used by another program."""
    found = []
    by_row = sorted(attempts, key=lambda attempt: (attempt.transaction_id, attempt.number))
    for _, group in groupby(by_row, key=lambda attempt: attempt.transaction):
        for before, after in pairwise(group):
            if before.nonce == after.nonce or before.nonce not in rows:
                continue
            if not _was_used_elsewhere(rows[before.nonce], before.transaction, after.signed_at):
                found.append(
                    f"transaction {before.transaction} was signed for the nonces {before.nonce} and {after.nonce}, "
                    "and no other program had finally used the first"
                )
    return found


def _was_used_elsewhere(owner: Transaction, row: Transaction, signed_at: datetime) -> bool:
    used = owner.mined_attempt
    is_external = used is not None and used.purpose == Attempt.Purpose.EXTERNAL
    is_final = owner.status in FINAL and (owner.finished_at is None or owner.finished_at <= signed_at)
    return owner.pk != row.pk and is_external and is_final


def price_violations(attempts: Sequence[Attempt]) -> list[str]:
    """Each new price of a nonce is at least an eighth above the last, and none exceeds what the client allows."""
    found = []
    signed = [attempt for attempt in attempts if attempt.purpose != Attempt.Purpose.EXTERNAL]
    for nonce, group in groupby(signed, key=lambda attempt: attempt.nonce):
        for before, after in pairwise(group):
            if not _outbids(prices(after), prices(before)):
                found.append(f"attempt {after} for nonce {nonce} is less than an eighth above attempt {before}")
    for attempt in signed:
        row = attempt.transaction
        is_current = attempt.payload_version == row.payload_version and attempt.nonce == row.nonce
        allowed = prices(row).limit if is_current else None
        if attempt.purpose not in NOOPS and allowed is not None and (prices(attempt).limit or 0) > allowed:
            found.append(f"attempt {attempt} pays {prices(attempt).limit} wei, and its request allows {allowed}")
    return found


def cap_violations(lane: Lane, attempts: Sequence[Attempt]) -> list[str]:
    """No price that was signed under the relayer's current cap exceeds it."""
    cap = lane.relayer.policies.get(CAP) if lane.relayer else None
    if lane.relayer is None or cap is None:
        return []
    name = f"policies.{CAP}"
    changes = AuditEntry.objects.for_row(lane.relayer).filter(changes__has_key=name).order_by("-at")
    since = changes.values_list("at", flat=True).first()
    found = []
    for attempt in attempts:
        is_newer = since is None or attempt.signed_at > since
        allowed = _bumped(cap, NOOP_BUMPS) if attempt.purpose in NOOPS else cap
        if attempt.raw and is_newer and (prices(attempt).limit or 0) > allowed:
            found.append(f"attempt {attempt} pays {prices(attempt).limit} wei, and the cap is {allowed}")
    return found


def prices(priced: Attempt | Transaction) -> Prices:
    texts = (getattr(priced, name) for name in PRICES)
    return Prices(*(int(text) if text else None for text in texts))


def _outbids(new: Prices, old: Prices) -> bool:
    pairs: Iterable[tuple[int | None, int | None]] = [(new.limit, old.limit)]
    if old.max_priority_fee is not None and new.max_priority_fee is not None:
        pairs = [*pairs, (new.max_priority_fee, old.max_priority_fee)]
    return all((after or 0) >= _bumped(before or 0, 1) for after, before in pairs)


def _bumped(price: int, times: int) -> int:
    for _ in range(times):
        price = max(-(-price * 9 // 8), price + 1)
    return price


def _folded(address: str | None) -> str | None:
    return address and address.lower()


def chain_violations(checked: CheckedLane, count: int) -> list[str]:
    """Compare a lane with the chain's count, read after the lane; raise `NodesUnreachable` if no node answers."""
    lane = Lane.objects.get(pk=checked.lane.pk)
    if lane.epoch != checked.lane.epoch:
        # The chain was replaced after the lane was read: the next check compares the new epoch.
        return []
    found = []
    if count > (lane.next_nonce or 0):
        found.append(f"the chain's count is {count}, above the next nonce {lane.next_nonce}: others used the account")
    if checked.is_at_rest and count < checked.end:
        found.append(f"the chain's count is {count}, below the next nonce {checked.end}, and nothing is in flight")
    rows = checked.rows()
    settled = {nonce for nonce, row in rows.items() if nonce < count and row.status in {*FINAL, Status.MINED}}
    hashes: dict[int, set[str]] = {nonce: set() for nonce in settled}
    for nonce, each in checked.hashes():
        if nonce in settled:
            hashes[nonce].add(each)
    on_chain = mined_hashes(lane, [each for found_hashes in hashes.values() for each in sorted(found_hashes)])
    found += [
        f"nonce {nonce} of transaction {rows[nonce]} is used, and none of its attempts is on the chain"
        for nonce in sorted(settled)
        if not hashes[nonce] & on_chain
    ]
    return found


def lane_nodes(lane: Lane) -> list[Node]:
    """Return the nodes of the lane's relayer, or else of a network with its chain ID."""
    if lane.relayer is not None:
        return lane.relayer.node_urls()
    known = (network for network in networks().values() if network.chain_id == lane.chain_id)
    return [(url, 100) for network in known for url in network.rpc_urls]


def chain_count(lane: Lane) -> int:
    """Return the account's transaction count in the latest block; raise `NodesUnreachable` if no node answers."""

    def check(answers: list[Any]) -> None:
        if quantity(answers[0]) is None:
            raise Fault("did not report the transaction count")

    call = Call("eth_getTransactionCount", [lane.address, "latest"])
    count = quantity(failover.call(lane_nodes(lane), [call], lane.chain_id, check)[0])
    assert count is not None
    return count


def mined_hashes(lane: Lane, hashes: Sequence[str]) -> set[str]:
    """Return which transactions are in a block, as far as any node knows: the index of one may lag."""
    urls, starts = lane_nodes(lane), range(0, len(hashes), HASHES_PER_REQUEST)

    def mined(start: int) -> set[str]:
        part, found = hashes[start : start + HASHES_PER_REQUEST], set()
        calls = [Call("eth_getTransactionByHash", [each]) for each in part]
        for answers in failover.answers(urls, calls, lane.chain_id):
            blocks = (member_quantity(answer, "blockNumber") for answer in answers)
            found |= {each for each, block in zip(part, blocks, strict=True) if block is not None}
            if found.issuperset(part):
                break
        return found

    return set().union(*map_threads(mined, starts, PARALLEL_REQUESTS))
