"""Mutations of the product: each breaks one behaviour, and the test files named with it must fail.

    make mutations                                   # all of them
    .venv/bin/python -m tests.mutations 3 17         # some of them
    .venv/bin/python -m tests.mutations --tree DIR   # all of them, in another checkout
    .venv/bin/python -m tests.mutations --check      # only whether each still fits its files, as `make check` does

A copy of the checkout is changed, one mutation at a time, and only the named files are run, on SQLite. First they must
pass without a mutation. It is an error if a mutation survives, if its file does not contain the text to change exactly
once, or if a test file is missing: whoever changes that line updates the row. A new row gets the next number.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import PROJECT

LINKED = (".venv", "tests/node/node_modules")
MAX_SECONDS = 1_800


class Mutation(NamedTuple):
    breaks: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


MUTATIONS: dict[int, Mutation] = {
    1: Mutation(
        "The body of an error has no `data`.",
        "relayer_service/api/envelope.py",
        '{"data": None, "message": message, "success": False}',
        '{"message": message, "success": False}',
        ("tests/contract/test_errors.py",),
    ),
    2: Mutation(
        "Of duplicate keys in a JSON object, the last one counts.",
        "relayer_service/api/parsers.py",
        "if len(members) < len(pairs):",
        "if len(members) > len(pairs):",
        ("tests/contract/test_request_bodies.py",),
    ),
    3: Mutation(
        "The total of a list is that of its largest bucket of 10,000 rows.",
        "relayer_service/api/page_sql.py",
        "coalesce(sum(CAST(n AS integer)), 0) AS total",
        "coalesce(max(CAST(n AS integer)), 0) AS total",
        ("tests/relayer_service/storage/test_counting.py",),
    ),
    4: Mutation(
        "The rows of a page come in the reverse order of their creation.",
        "relayer_service/api/page_sql.py",
        "ORDER BY page.sequence",
        "ORDER BY page.sequence DESC",
        ("tests/contract/test_pagination.py",),
    ),
    5: Mutation(
        "X-Forwarded-For is believed from whoever sends it.",
        "relayer_service/net/incoming.py",
        "if not is_within(peer, trusted):",
        "if not peer:",
        ("tests/relayer_service/net/test_incoming.py",),
    ),
    6: Mutation(
        "All tokens share one count of a rate limit.",
        "relayer_service/api/throttling.py",
        "{group}:{token.family_key}",
        "{group}:any",
        ("tests/contract/test_rate_limits.py",),
    ),
    7: Mutation(
        "A secret opens in another row than the one it was sealed for.",
        "relayer_service/storage/encryption.py",
        "{self.column}:{instance.identifier}",
        "{self.column}",
        ("tests/relayer_service/storage/test_encryption.py",),
    ),
    8: Mutation(
        "After a rotation of keys, secrets are still sealed with the old one.",
        "relayer_service/storage/encryption.py",
        "next(iter(settings.ENCRYPTION_KEYS))",
        "next(reversed(settings.ENCRYPTION_KEYS))",
        ("tests/relayer_service/storage/test_encryption.py",),
    ),
    9: Mutation(
        "Secrets stand in the tracebacks of the log.",
        "relayer_service/observability/logs.py",
        "record.exc_text = redact(record.exc_text)",
        "record.exc_text = str(record.exc_text)",
        ("tests/relayer_service/observability/test_logs.py",),
    ),
    10: Mutation(
        "A worker whose lease was lost writes over what another has done.",
        "relayer_service/storage/leases.py",
        "held |= models.Q(lease=lease, pk__in=claimed)",
        "held |= models.Q(pk__in=claimed)",
        ("tests/notifications/test_outbox_outcomes.py",),
    ),
    11: Mutation(
        "A token with a known key is accepted whatever its secret is.",
        "tokens/models.py",
        "token and pepper and genuine and token.user.is_active",
        "token and pepper and token.user.is_active",
        ("tests/tokens/test_verification.py",),
    ),
    12: Mutation(
        "A token is accepted from networks that it does not name.",
        "tokens/models.py",
        "return not networks or incoming.is_within(address, networks)",
        "return True",
        ("tests/contract/test_authentication.py",),
    ),
    13: Mutation(
        "Tokens that were disabled are accepted for as long as they are remembered.",
        "tokens/models.py",
        "        forget({token.key for token in tokens})\n",
        "",
        ("tests/tokens/test_verification.py",),
    ),
    14: Mutation(
        "Any staff may issue a token in the name of a superuser.",
        "tokens/admin.py",
        'if db_field.name == "user" and not request.user.is_superuser:',
        'if db_field.name == "user" and not request.user.is_staff:',
        ("tests/tokens/test_admin.py",),
    ),
    15: Mutation(
        "Answers show a secret of a signer's config.",
        "signers/config_shapes.py",
        "wallet_secret = StringField(",
        "wallet_secret = ShownField(",
        ("tests/signers/test_secrets.py",),
    ),
    16: Mutation(
        "A signature by another key than the signer's is given out.",
        "signers/backends/base.py",
        "if recovered == self.public_key:",
        "if recovered:",
        ("tests/signers/backends/test_base.py",),
    ),
    17: Mutation(
        "A signer's id that is taken is a bad request instead of a conflict.",
        "relayer_service/api/exceptions.py",
        "status_code = HTTPStatus.CONFLICT",
        "status_code = HTTPStatus.BAD_REQUEST",
        ("tests/contract/test_signers.py",),
    ),
    18: Mutation(
        "A signing_key of null removes the key.",
        "notifications/writes.py",
        "if signing_key is not None and not",
        'if "signing_key" in values and not',
        ("tests/contract/test_notifications.py",),
    ),
    19: Mutation(
        "The timestamp beside a webhook's signature is another than the one that is signed.",
        "notifications/delivery/signing.py",
        "timestamp = int(moment.timestamp())",
        "timestamp = int(moment.timestamp()) + 1",
        ("tests/notifications/test_signing.py",),
    ),
    20: Mutation(
        "A target that has answered 410 Gone is sent to again.",
        "notifications/delivery/posting.py",
        "return self.response_code == HTTPStatus.GONE",
        "return self.response_code == HTTPStatus.NOT_FOUND",
        ("tests/notifications/test_outbox_outcomes.py",),
    ),
    21: Mutation(
        "Webhooks are sent into carrier-grade NAT, where one cloud serves its metadata.",
        "relayer_service/net/addresses.py",
        '"100.64.0.0/10",  # carrier-grade NAT',
        "# carrier-grade NAT",
        ("tests/notifications/test_addresses.py",),
    ),
    22: Mutation(
        "A relayer is disabled although the event that tells of it could not be written.",
        "relayers/health/checking.py",
        "with transaction.atomic(), acting_as(",
        "with acting_as(",
        ("tests/relayers/test_health_turns.py",),
    ),
    23: Mutation(
        "The list of relayers shows the keys in RPC URLs.",
        "relayers/models/relayers.py",
        '"url": mask(entry["url"])} for entry in rpc_urls]',
        '"url": entry["url"]} for entry in rpc_urls]',
        ("tests/relayers/test_rpc_urls.py", "tests/contract/test_relayers.py"),
    ),
    24: Mutation(
        "Amounts above 2^64 wei are rounded in the list of relayers.",
        "relayer_service/api/resource_serializers.py",
        "return orjson.Fragment if",
        "return orjson.loads if",
        ("tests/contract/test_relayers.py",),
    ),
    25: Mutation(
        "One failed check disables a relayer.",
        "relayers/health/checking.py",
        "failed >= FAILURES_TO_DISABLE",
        "failed >= 1",
        ("tests/relayers/test_health.py",),
    ),
    26: Mutation(
        "Where one node fails, no other is asked.",
        "chain/nodes/failover.py",
        "            reasons.add(str(fault))\n",
        "            reasons.add(str(fault))\n            break\n",
        ("tests/chain/test_nodes.py",),
    ),
    27: Mutation(
        "A node of another chain is believed.",
        "chain/nodes/answers.py",
        "if found != expected:",
        "if found == 0:",
        ("tests/chain/test_answers.py",),
    ),
    28: Mutation(
        "A number that was sent as the id of a JSON-RPC call comes back as a number.",
        "rpc/viewsets.py",
        "str(sent) if settings.RPC_ID_AS_STRING else",
        "str(sent) if not settings.RPC_ID_AS_STRING else",
        ("tests/contract/test_rpc.py",),
    ),
    29: Mutation(
        "A fee is rounded down.",
        "relayer_service/amounts.py",
        "max(1, -(-above // below))",
        "max(1, above // below)",
        ("tests/rpc/test_extremes.py",),
    ),
    30: Mutation(
        "The fee on a rollup leaves out what its data costs on L1.",
        "chain/fees/native_fee.py",
        "self.gas_fee + self.charges.l1_fee + self.charges.operator_fee",
        "self.gas_fee + self.charges.operator_fee",
        ("tests/chain/test_native_fee.py",),
    ),
    31: Mutation(
        "A Chainlink feed that is older than its heartbeat still gives a price.",
        "rpc/fees/sources/chainlink.py",
        "if now > fresh_until:",
        "if now > fresh_until + heartbeat:",
        ("tests/rpc/test_chainlink.py",),
    ),
    32: Mutation(
        "An empty whitelist_receivers allows every receiver.",
        "relayers/policies.py",
        "if allowed is None:",
        "if not allowed:",
        ("tests/rpc/test_policies.py",),
    ),
    33: Mutation(
        "A count of calls replaces the one that was written before it.",
        "relayer_service/observability/call_counts.py",
        "{name} = stored.{name} + excluded.{name}",
        "{name} = excluded.{name}",
        ("tests/rpc/test_counters.py",),
    ),
    34: Mutation(
        "load_config --dry-run makes the changes.",
        "relayer_service/management/commands/load_config.py",
        "if not dry_run:",
        "if found.changes:",
        ("tests/relayers/test_load_config.py",),
    ),
    35: Mutation(
        "A fee history without the base fee of the next block is refused.",
        "chain/fees/fee_history.py",
        "len(base_fees) not in {blocks, blocks + 1}",
        "len(base_fees) != blocks + 1",
        ("tests/chain/test_fee_history.py",),
    ),
    36: Mutation(
        "The base fee that follows a full block by EIP-1559 does not rise from zero.",
        "chain/nodes/plausibility.py",
        "return base_fee + max(change, 1)",
        "return base_fee + change",
        ("tests/chain/test_fee_history.py",),
    ),
    37: Mutation(
        "The speed that a caller wants has no say.",
        "chain/fees/fee_history.py",
        "percentile = history.percentile if speed is None else SPEEDS[speed]",
        "percentile = history.percentile",
        ("tests/chain/test_fee_history.py",),
    ),
    38: Mutation(
        "A signed legacy transaction costs what the market says, and not its own price.",
        "chain/fees/gas_price.py",
        "return own.gas_price - market.base_fee",
        "return market.priority_fee",
        ("tests/chain/test_gas_price.py",),
    ),
    39: Mutation(
        "A gas_price_cap below the next base fee gives a price at which nothing is included.",
        "chain/fees/gas_price.py",
        "cap is not None and cap < base_fee",
        "cap is not None and cap < 0",
        ("tests/chain/test_gas_price.py",),
    ),
    40: Mutation(
        "A node that is behind is believed.",
        "chain/nodes/plausibility.py",
        "max_age is not None and now - timestamp > max_age",
        "max_age is not None and now < timestamp - max_age",
        ("tests/chain/test_head.py",),
    ),
    41: Mutation(
        "What a block told is kept for the time of a block from when it was read.",
        "chain/nodes/head.py",
        "min(max(self.next_due(network) - now, 0), network.block_seconds)",
        "network.block_seconds",
        ("tests/chain/test_readings.py",),
    ),
    42: Mutation(
        "A transfer has a buffer too.",
        "chain/fees/native_fee.py",
        "buffer_bps = 0 if is_transfer else network.gas_buffer_bps",
        "buffer_bps = network.gas_buffer_bps",
        ("tests/chain/test_native_fee.py",),
    ),
    43: Mutation(
        "The gas limit of a signed transaction does not bound its maximum.",
        "chain/fees/native_fee.py",
        "min(math.ceil(buffered), limit) if transaction.is_signed else buffered",
        "buffered",
        ("tests/chain/test_native_fee.py",),
    ),
    44: Mutation(
        "Unused gas costs nothing where the network charges it.",
        "chain/fees/native_fee.py",
        "part = Fraction(network.unused_gas_charge_bps, BASIS_POINTS)",
        "part = 0",
        ("tests/chain/test_native_fee.py",),
    ),
    45: Mutation(
        "A gas limit that does not cover the data floor of EIP-7623 is quoted.",
        "chain/limits.py",
        "if not network.has_data_floor:",
        "if network.has_data_floor:",
        ("tests/chain/test_limits.py",),
    ),
    46: Mutation(
        "A gas limit above what the network takes is quoted.",
        "chain/limits.py",
        "transaction.gas, network.tx_gas_cap",
        "0, network.tx_gas_cap",
        ("tests/chain/test_limits.py",),
    ),
    47: Mutation(
        "The nonce 2^64 - 1 is taken.",
        "chain/transactions/decoding.py",
        '{"nonce": 2**64 - 2,',
        '{"nonce": 2**64 - 1,',
        ("tests/chain/test_transactions.py",),
    ),
    48: Mutation(
        "A tip above the maximum fee is taken.",
        "chain/transactions/decoding.py",
        "(prices.max_priority_fee or 0) > prices.max_fee",
        "(prices.max_priority_fee or 0) > 2 * prices.max_fee + 1",
        ("tests/chain/test_transactions.py",),
    ),
    49: Mutation(
        "Without the gas for L1 that Arbitrum shows, there is no fee.",
        "chain/fees/network_fees.py",
        "except InsufficientData:\n            return None",
        "except InsufficientData:\n            raise",
        ("tests/chain/test_native_fee.py",),
    ),
    50: Mutation(
        "A feed that several tokens share is asked once for each.",
        "chain/contracts.py",
        "@lru_cache(maxsize=10_000)\ndef _getter",
        "def _getter",
        ("tests/chain/test_readings.py",),
    ),
    51: Mutation(
        "A signer is created although the audit log could not be written.",
        "relayer_service/audit/recording.py",
        "            record([created(row, reason)])",
        "            transaction.on_commit(transaction.atomic(lambda: record([created(row, reason)])))",
        ("tests/relayer_service/audit/test_recording.py",),
    ),
    52: Mutation(
        "The signing key of a webhook is in the audit log.",
        "notifications/models.py",
        '"signing_key": hidden_column(self, "signing_key"),',
        '"signing_key": self.signing_key,',
        ("tests/relayer_service/audit/test_values.py",),
    ),
    53: Mutation(
        "What a fleet file changes is not in the audit log.",
        "relayer_service/fleet/sections.py",
        "self.write_class.save_all(",
        "self.write_class.save_rows(",
        ("tests/relayer_service/audit/test_ways_in.py",),
    ),
    54: Mutation(
        "A relayer with open transactions can be deleted.",
        "relayers/guards.py",
        "        raise DeletionRefused(reason)",
        "        break",
        ("tests/transactions/test_guards.py",),
    ),
    55: Mutation(
        "A turn that was planned with old values of a relayer can commit.",
        "transactions/repair/guards.py",
        '{"lease": None, "due_at": DatabaseNow()}',
        '{"due_at": DatabaseNow()}',
        ("tests/transactions/test_guards.py",),
    ),
    56: Mutation(
        "A key is replaced while transactions of it are in flight.",
        "relayers/writes.py",
        'return next(iter(reasons.values()), "")',
        'return ""',
        ("tests/transactions/test_guards.py",),
    ),
    57: Mutation(
        "A hold that protects against paying twice is ended without consent.",
        "transactions/management/commands/release_lanes.py",
        'each == Hold.OPERATOR or options["accept_risk"]',
        "True",
        ("tests/transactions/test_hold_commands.py",),
    ),
    58: Mutation(
        "A nonce that is not final is pruned.",
        "transactions/repair/pruning.py",
        "for nonce in (lane.final_nonce or 0, *nonces)",
        "for nonce in (lane.next_nonce or 0, *nonces)",
        ("tests/transactions/test_pruning.py",),
    ),
    59: Mutation(
        "A turn writes over what was changed since it read the row.",
        "transactions/changes.py",
        "for row in lock_by_key(known, lanes) if row.version == known[row.pk].version}",
        "for row in lock_by_key(known, lanes)}",
        ("tests/transactions/test_commits.py",),
    ),
    60: Mutation(
        "A worker whose lease was lost while it signed commits nonces.",
        "transactions/lanes/commits.py",
        "Lane.objects.filter(pk=pk, lease=lease).select_for_update(",
        "Lane.objects.filter(pk=pk).select_for_update(",
        ("tests/transactions/test_commits.py",),
    ),
    61: Mutation(
        "A nonce is assigned that is not the next one of the lane.",
        "transactions/lanes/commits.py",
        "if row is None or each.draft.nonce != lane.next_nonce:",
        "if row is None:",
        ("tests/transactions/test_commits.py",),
    ),
    62: Mutation(
        "Nonces behind a row that was changed while they were signed leave a gap.",
        "transactions/lanes/commits.py",
        "        if row is None or each.draft.nonce != lane.next_nonce:\n            break\n",
        "        if row is None:\n            continue\n",
        ("tests/transactions/test_commits.py",),
    ),
    63: Mutation(
        "The commit of a turn does not check again whether the lane may assign nonces.",
        "transactions/lanes/commits.py",
        "may_assign = holds.allows_nonces(locked)",
        "may_assign = True",
        ("tests/transactions/test_commits.py",),
    ),
    64: Mutation(
        "A held lane assigns nonces.",
        "transactions/settlement/nonces/holds.py",
        "return lane.next_nonce is not None and allows_closing(lane)",
        "return lane.next_nonce is not None",
        ("tests/transactions/test_commits.py",),
    ),
    65: Mutation(
        "A database that was restored or promoted assigns nonces at once.",
        "transactions/settlement/nonces/holds.py",
        "return not lane.database_identity or lane.database_identity == database_identity()",
        "return True",
        ("tests/transactions/test_commits.py",),
    ),
    66: Mutation(
        "Transactions are broadcast before they are committed.",
        "transactions/lanes/turn.py",
        "attempts = await self._threads.database(commit, self.lane, result) if result else []\n",
        "unsaved = [Attempt(nonce=each.draft.nonce, raw=each.signed.raw) for each in result.attempts]\n"
        "        await self._node(broadcast, work.nodes, work.network, unsaved)\n"
        "        attempts = await self._threads.database(commit, self.lane, result) if result else []\n",
        ("tests/transactions/test_turns.py",),
    ),
    67: Mutation(
        "Transactions that a killed worker has committed wait until a node was read.",
        "transactions/lanes/turn.py",
        "            await self._broadcast_again()\n            if self._work",
        "            if self._work",
        ("tests/transactions/test_turn_order.py",),
    ),
    68: Mutation(
        "A transaction counts as submitted though nobody knows whether a node has it.",
        "transactions/lanes/outcomes.py",
        "RECEIVED = {Outcome.ACCEPTED, Outcome.KNOWN}",
        "RECEIVED = {Outcome.ACCEPTED, Outcome.KNOWN, Outcome.UNKNOWN}",
        ("tests/transactions/test_commits.py",),
    ),
    69: Mutation(
        "A transaction that a node knows already is never submitted.",
        "transactions/lanes/outcomes.py",
        "RECEIVED = {Outcome.ACCEPTED, Outcome.KNOWN}",
        "RECEIVED = {Outcome.ACCEPTED}",
        ("tests/transactions/test_commits.py",),
    ),
    70: Mutation(
        "A transaction that all nodes refuse blocks its lane for good.",
        "transactions/lanes/outcomes.py",
        "if can_close and (tries or each.broadcast.outcome == Outcome.REFUSED):",
        "if can_close and tries:",
        ("tests/transactions/test_commits.py",),
    ),
    71: Mutation(
        "The outcome of a replaced attempt decides about the transaction.",
        "transactions/lanes/outcomes.py",
        "if row.last_attempt_id != each.attempt.pk:",
        "if not row.last_attempt_id:",
        ("tests/transactions/test_commits.py",),
    ),
    72: Mutation(
        "A confirmed transaction that a deep reorg has removed is not rebroadcast.",
        "transactions/lanes/turn.py",
        "[*work.removed, *work.in_flight]",
        "[*work.in_flight]",
        ("tests/transactions/test_turns.py",),
    ),
    73: Mutation(
        "Any number of nonces is in flight.",
        "transactions/lanes/drafting.py",
        "room = max(0, work.window - (next_nonce - found.count)) if is_ours else 0",
        "room = work.window if is_ours else 0",
        ("tests/transactions/test_turns.py",),
    ),
    74: Mutation(
        "Nonces are assigned that another program has used.",
        "transactions/lanes/drafting.py",
        "room = max(0, work.window - (next_nonce - found.count)) if is_ours else 0",
        "room = max(0, work.window - (next_nonce - found.count))",
        ("tests/transactions/test_turn_order.py",),
    ),
    75: Mutation(
        "A paused relayer gets new nonces.",
        "transactions/lanes/work.py",
        "is_enabled = not self.relayer.paused and not self.relayer.health.system_disabled",
        "is_enabled = not self.relayer.health.system_disabled",
        ("tests/transactions/test_turns.py",),
    ),
    76: Mutation(
        "A lane is released with a request that was accepted at the same moment.",
        "transactions/lanes/leasing.py",
        "held([lane]).exclude(has_work())",
        "held([lane])",
        ("tests/transactions/test_turns.py",),
    ),
    77: Mutation(
        "A signature that fails discards those of the same turn.",
        "transactions/lanes/turn.py",
        "if isinstance(made, SignerError):",
        "if isinstance(made, SignerError) and not made.permanent and failure:",
        ("tests/transactions/test_turns.py",),
    ),
    78: Mutation(
        "A signer whose key was replaced signs for the account of another key.",
        "signers/signing.py",
        "if backend.address() != address:",
        "if not backend.address():",
        ("tests/transactions/test_signing.py",),
    ),
    79: Mutation(
        "One hung signer or node occupies all threads.",
        "transactions/lanes/threads.py",
        "self._limit = max(1, threads // SHARE)",
        "self._limit = threads",
        ("tests/transactions/test_threads.py",),
    ),
    80: Mutation(
        "The signature of a legacy transaction lacks its parity.",
        "chain/transactions/encoding.py",
        "v = CHAIN_V + 2 * self.chain_id + recovery_id if self._is_legacy else recovery_id",
        "v = CHAIN_V + 2 * self.chain_id if self._is_legacy else recovery_id",
        ("tests/chain/test_drafts.py",),
    ),
    81: Mutation(
        "A transaction is confirmed in its first block.",
        "transactions/settlement/judging.py",
        "return view.head.number - number + 1 >= network.confirmations",
        "return view.head.number >= number",
        ("tests/transactions/test_settling.py",),
    ),
    82: Mutation(
        "A transaction is confirmed in a block that a reorg has removed.",
        "transactions/settlement/judging.py",
        "return None if found is None else found == row.block_hash",
        "return None if found is None else True",
        ("tests/transactions/test_settling.py",),
    ),
    83: Mutation(
        "A receipt of a block that is not in the chain is believed.",
        "transactions/settlement/judging.py",
        "if receipt is not None and view.hashes.get(receipt.block.number, receipt.block.hash) == receipt.block.hash:",
        "if receipt is not None:",
        ("tests/transactions/test_settling.py",),
    ),
    84: Mutation(
        "A request is expired before its no-op is final, and may still be mined.",
        "transactions/settlement/judging.py",
        "if each.has_rivals or each.row.kind",
        "if each.row.kind",
        ("tests/transactions/test_settling.py",),
    ),
    85: Mutation(
        "A worker whose lease was lost settles transactions.",
        "transactions/settlement/watching.py",
        " if lane.lease and lane.lease == leases[lane.pk]]",
        "]",
        ("tests/transactions/test_watching.py",),
    ),
    86: Mutation(
        "A transaction is queued again before the one that used its nonce is found.",
        "transactions/settlement/nonces/nonce_owner.py",
        "            _explain(locked, nonce)\n",
        '            Transaction.objects.filter(lane=locked, nonce=nonce).update(status="pending", nonce=None)\n',
        ("tests/transactions/test_adoption.py",),
    ),
    87: Mutation(
        "A lost bump is adopted by an older request instead of the row that has its nonce.",
        "transactions/settlement/nonces/adoption.py",
        "if owner is not None and version is not None:",
        "if owner is None and used.nonce is None:",
        ("tests/transactions/test_adoption.py",),
    ),
    88: Mutation(
        "A token sends with relayers that it is not limited to.",
        "transactions/viewsets.py",
        "self.check_object_permissions(request, RelayerInPath(relayer_id))",
        "pass",
        ("tests/transactions/rest/test_permissions.py",),
    ),
    89: Mutation(
        "Another body under the same idempotency key returns the earlier transaction.",
        "transactions/requests/accepting.py",
        "if not hmac.compare_digest(row.request_digest, request.digest):",
        "if not hmac.compare_digest(row.request_digest, row.request_digest):",
        ("tests/transactions/rest/test_idempotency.py",),
    ),
    90: Mutation(
        "The queue of a relayer has no limit.",
        "transactions/records/queues.py",
        "max(self.own, self.shared) >= limit",
        "max(self.own, self.shared) > limit",
        ("tests/transactions/rest/test_refusals.py",),
    ),
    91: Mutation(
        "A relayer whose transactions are in flight can be deleted.",
        "transactions/repair/guards.py",
        'rows = Transaction.objects.filter(IS_OPEN, lane__in=lanes).order_by("lane__relayer")',
        'rows = Transaction.objects.filter(IS_OPEN, lane__in=lanes, nonce=None).order_by("lane__relayer")',
        ("tests/transactions/test_guards.py",),
    ),
    92: Mutation(
        "A contract that reverts with the words of a node decides what becomes of the transaction.",
        "chain/broadcast/send_outcomes.py",
        "    if REVERTED.search(text):\n        return Outcome.REFUSED\n",
        "",
        ("tests/chain/test_send_outcomes.py",),
    ),
    93: Mutation(
        "Each transaction of a turn is funded by the whole balance.",
        "transactions/lanes/prices/planning.py",
        "self.reserved += decision.max_cost",
        "self.reserved += 0",
        ("tests/transactions/test_planning.py",),
    ),
    94: Mutation(
        "A transaction that depends on an earlier one fails before that is mined.",
        "transactions/lanes/prices/planning.py",
        "        if self.has_unmined or (",
        "        if (",
        ("tests/transactions/test_planning.py",),
    ),
    95: Mutation(
        "A token rule reads addresses with dirty upper bytes.",
        "spending/erc20.py",
        "if any(any(word[:-ADDRESS]) for word in addresses):",
        "if not addresses:",
        ("tests/spending/test_erc20.py",),
    ),
    96: Mutation(
        "A token rule reads calls with trailing bytes.",
        "spending/erc20.py",
        "if len(data) != SELECTOR_LENGTH + arguments * WORD:",
        "if len(data) < SELECTOR_LENGTH + arguments * WORD:",
        ("tests/spending/test_erc20.py",),
    ),
    97: Mutation(
        "On a contract with token rules, every function can be called.",
        "spending/rules.py",
        'Verdict("tokens.calls", call is not None, text)',
        'Verdict("tokens.calls", True, text)',
        ("tests/spending/test_rules.py",),
    ),
    98: Mutation(
        "Of `transferFrom`, the sender counts as the recipient.",
        "spending/erc20.py",
        "checksummed(addresses[-1][-ADDRESS:])",
        "checksummed(addresses[0][-ADDRESS:])",
        ("tests/spending/test_rules.py",),
    ),
    99: Mutation(
        "Contracts can be created despite rules for tokens.",
        "spending/rules.py",
        'yield Verdict("tokens", False,',
        'yield Verdict("tokens", True,',
        ("tests/spending/test_rules.py",),
    ),
    100: Mutation(
        "A transfer without data is allowed whatever the selectors.",
        "spending/rules.py",
        "_selector(payload.data) in selectors, text)",
        "not payload.data or _selector(payload.data) in selectors, text)",
        ("tests/spending/test_rules.py",),
    ),
    101: Mutation(
        "Two bare hashes are signed despite rules.",
        "spending/rules.py",
        "    if typed_data is None:\n        return [Verdict(",
        "    if typed_data is None:\n        return [] and [Verdict(",
        ("tests/spending/test_typed_data.py",),
    ),
    102: Mutation(
        "Typed data is judged by a domain that its hash does not cover.",
        "spending/typed_data.py",
        " or types.get(DOMAIN, expected) != expected:",
        ":",
        ("tests/spending/test_typed_data.py",),
    ),
    103: Mutation(
        "A permit is signed despite a daily limit of its token.",
        "spending/rules.py",
        'Verdict("tokens.max_amount_per_day", False, text)',
        'Verdict("tokens.max_amount_per_day", True, text)',
        ("tests/spending/test_typed_data.py",),
    ),
    104: Mutation(
        "A token that replaces another has no spending rules.",
        "tokens/writes.py",
        '"allowed_relayers", "spending", "issued_after")',
        '"allowed_relayers", "issued_after")',
        ("tests/spending/test_writes.py",),
    ),
    105: Mutation(
        "Staff loosen the spending rules of their own token.",
        "tokens/admin.py",
        '"scopes", "allowed_relayers", "spending_rules"]',
        '"scopes", "allowed_relayers"]',
        ("tests/spending/test_admin.py",),
    ),
    106: Mutation(
        "The admin reverts spending rules that were changed concurrently.",
        "spending/console/rule_fields.py",
        "if self.is_changed and self.stored != self._shown():",
        "if False:",
        ("tests/spending/test_admin.py",),
    ),
    107: Mutation(
        "A cancellation is never signed.",
        "transactions/models/transactions.py",
        "    Transaction.Action.CANCEL: Attempt.Purpose.CANCEL,\n    Transaction.Action.EXPIRE",
        "    Transaction.Action.EXPIRE",
        ("tests/transactions/test_actions_on_chain.py",),
    ),
    108: Mutation(
        "A replacement is signed again and again.",
        "transactions/lanes/commits.py",
        "if attempt.purpose == DONE_BY.get(row.requested_action):",
        "if not row.requested_action:",
        ("tests/transactions/test_commits.py",),
    ),
    109: Mutation(
        "The payload that is reported is not the one that was mined.",
        "transactions/settlement/writing.py",
        "columns = {**judging.receipt_columns(receipt, row.mined_attempt), **_executed_payload(row)}",
        "columns = judging.receipt_columns(receipt, row.mined_attempt)",
        ("tests/transactions/test_actions_on_chain.py",),
    ),
    110: Mutation(
        "Payloads that replaced each other become final before a reorg can swap them.",
        "transactions/settlement/judging.py",
        "0 if each.purpose in NOOPS else each.payload_version",
        "0 if each.purpose in NOOPS else 1",
        ("tests/transactions/test_settling.py",),
    ),
    111: Mutation(
        "An explicit price that cannot replace what is in flight is accepted.",
        "transactions/requests/replacement_prices.py",
        "if name in values and values[name] < (minimums[name] or 0)",
        "if name not in values",
        ("tests/transactions/rest/test_changing.py",),
    ),
    112: Mutation(
        "A pending transaction of a held relayer is canceled, though it may be on the chain.",
        "transactions/requests/actions.py",
        "if row.status == Status.PENDING and allows_closing:",
        "if row.status == Status.PENDING:",
        ("tests/transactions/rest/test_changing.py",),
    ),
    113: Mutation(
        "A held relayer replaces payloads that may be on the chain.",
        "transactions/requests/actions.py",
        "if not holds.allows_closing(row.lane):",
        "if row.lane is None:",
        ("tests/transactions/rest/test_changing.py",),
    ),
    114: Mutation(
        "A replacement is sent besides the transaction that it came too late for.",
        "transactions/settlement/nonces/adoption.py",
        "version = None if owner is None else _own_version(owner, used)",
        "version = owner.payload_version if owner is not None and has_payload(owner, used) else None",
        ("tests/transactions/test_adoption.py",),
    ),
    115: Mutation(
        "A replacement is never sent after the nonce was used elsewhere.",
        "transactions/settlement/nonces/adoption.py",
        'requested_action=owner.requested_action if owner.is_ending else "",',
        "",
        ("tests/transactions/test_actions_on_chain.py",),
    ),
    116: Mutation(
        "An explicit price is raised to the market.",
        "transactions/lanes/prices/bumping.py",
        "        return _stopped(old, exceeded[0]) if exceeded else Bump(prices)\n",
        "        if exceeded:\n            return _stopped(old, exceeded[0])\n",
        ("tests/transactions/test_bumping.py",),
    ),
    141: Mutation(
        "A limit may be exceeded by what is sent last.",
        "transactions/limits/holders.py",
        "used + amount <= limit.maximum",
        "used <= limit.maximum",
        ("tests/transactions/rest/test_spending.py",),
    ),
    142: Mutation(
        "An hour that is partly within the last day does not count.",
        "transactions/limits/windows.py",
        "return hour - HOURS",
        "return hour - HOURS + 1",
        ("tests/transactions/test_spending_windows.py",),
    ),
    143: Mutation(
        "The rules of the token are not read when a transaction is accepted.",
        "transactions/limits/holders.py",
        "    if token_spending_id is not None:\n        found = read_rules",
        "    if False and token_spending_id is not None:\n        found = read_rules",
        ("tests/transactions/rest/test_spending.py",),
    ),
    144: Mutation(
        "A nonce is committed under rules that were tightened since.",
        "transactions/lanes/commits.py",
        "if budget.refusal(row) or budget.shortage(row, each.gas_cost):",
        "if budget.shortage(row, each.gas_cost):",
        ("tests/transactions/test_spending_commits.py",),
    ),
    145: Mutation(
        "A nonce is committed over a limit of gas.",
        "transactions/lanes/commits.py",
        "if budget.refusal(row) or budget.shortage(row, each.gas_cost):",
        "if budget.refusal(row):",
        ("tests/transactions/test_spending_commits.py",),
    ),
    146: Mutation(
        "A spending limit of gas stops a no-op.",
        "transactions/lanes/commits.py",
        "if each.purpose not in NOOPS and (budget.exceeds_gas(",
        "if (budget.exceeds_gas(",
        ("tests/transactions/test_spending_commits.py",),
    ),
    147: Mutation(
        "What a no-op replaced still counts.",
        "transactions/limits/status_changes.py",
        "    if row.mined_attempt.purpose in NOOPS:\n        return 0\n",
        "",
        ("tests/transactions/test_spending_commits.py",),
    ),
    148: Mutation(
        "Gas counts at its ceiling after the receipt.",
        "transactions/limits/status_changes.py",
        "if attempt is None or row.relayer is None",
        "if True or row.relayer is None",
        ("tests/transactions/test_spending_commits.py",),
    ),
    149: Mutation(
        "What a reorg removed from its block stops to count after a day.",
        "transactions/limits/status_changes.py",
        " if row.status in FINAL else OPEN_HOUR",
        "",
        ("tests/transactions/test_spending_commits.py",),
    ),
    201: Mutation(
        "What a single node reports as replaced is released.",
        "transactions/limits/status_changes.py",
        "is_released = row.corroborated_at is not None or row.last_attempt is None",
        "is_released = True",
        ("tests/transactions/test_spending_commits.py",),
    ),
    202: Mutation(
        "A receipt that reports no gas is believed.",
        "transactions/limits/status_changes.py",
        "cost = max(row.gas_used, gas) *",
        "cost = row.gas_used *",
        ("tests/transactions/test_spending_commits.py",),
    ),
    150: Mutation(
        "The report of a refusal is rolled back with the request.",
        "transactions/requests/accepting.py",
        "with refusals.recorded() if reports_refusals else nullcontext():",
        "with transaction.atomic(), refusals.recorded():",
        ("tests/transactions/rest/test_spending.py",),
    ),
    140: Mutation(
        "A private transaction that is queued again is public if the policy was switched off.",
        "transactions/lanes/commits.py",
        'return {} if attempt.private_since is None else {"is_private": True}',
        "return {}",
        ("tests/transactions/test_private_transactions.py",),
    ),
    151: Mutation(
        "Private transactions are broadcast again to public nodes.",
        "transactions/lanes/turn.py",
        "(Route.PRIVATE, work.private_nodes)):",
        "(Route.PRIVATE, work.nodes)):",
        ("tests/transactions/test_private_transactions.py",),
    ),
    152: Mutation(
        "Private nodes forget a transaction that a reorg has removed.",
        "transactions/settlement/writing.py",
        ".update(broadcast_block=None)",
        ".count()",
        ("tests/transactions/test_private_transactions.py",),
    ),
    153: Mutation(
        "The successor of a revoked token is accepted.",
        "tokens/models.py",
        "            tokens = lock_with_successors(chosen) if with_successors else lock(chosen)\n",
        "            tokens = lock(chosen)\n",
        ("tests/lifecycle/test_rotation.py",),
    ),
    154: Mutation(
        "A token is rotated as often as it is asked to.",
        "tokens/writes.py",
        "        if token.replaced_at:\n",
        "        if False:\n",
        ("tests/lifecycle/test_rotation.py",),
    ),
    155: Mutation(
        "A webhook receives events that it did not choose.",
        "notifications/subscriptions.py",
        "return event in names or group_of(event) in names or event == NOTIFICATION_TEST.name",
        "return True",
        ("tests/notifications/test_subscriptions.py",),
    ),
    156: Mutation(
        "REST changes the signer of a relayer with open transactions.",
        "relayers/writes.py",
        'if self.is_new or "signer_id" in self.given:',
        "if self.is_new:",
        ("tests/transactions/test_guards.py",),
    ),
    170: Mutation(
        "An invented transaction has a payload signed for a second nonce.",
        "transactions/settlement/nonces/adoption.py",
        "if not (used.is_proven or is_agreed or is_accepted):",
        "if not (used.hash or is_agreed or is_accepted):",
        ("tests/transactions/test_identifying.py",),
    ),
    171: Mutation(
        "A transaction that the same key signed for another chain is taken for the use of a nonce.",
        "transactions/settlement/searching.py",
        "signer = signed and (signed.sender, signed.chain_id)",
        "signer = signed and (signed.sender, chain_id)",
        ("tests/transactions/test_reading.py",),
    ),
    172: Mutation(
        "The fields of an entry are believed whatever its hash.",
        "chain/transactions/proof.py",
        'if transaction_hash(raw) == entry["hash"].lower() else None',
        'if transaction_hash(raw) or entry["hash"].lower() else None',
        ("tests/chain/test_proof.py",),
    ),
    173: Mutation(
        "One node alone has a payload signed for a second nonce.",
        "transactions/settlement/nonces/adoption.py",
        "if owner is not None and version is None and agreed is False:",
        "if owner is not None and version is None and agreed is lane:",
        ("tests/transactions/test_second_node.py",),
    ),
    174: Mutation(
        "A transaction is canceled that another node reports as executed.",
        "transactions/settlement/judging.py",
        "(found.hash, found.succeeded) != (receipt.hash, receipt.succeeded):",
        "found.hash == receipt.hash != receipt.hash:",
        ("tests/transactions/test_settling.py",),
    ),
    175: Mutation(
        "One node alone releases a charge.",
        "transactions/limits/status_changes.py",
        "if row.status not in FINAL or not is_released:",
        "if row.status not in FINAL:",
        ("tests/transactions/test_spending_commits.py",),
    ),
    176: Mutation(
        "A node that is asked twice counts as two.",
        "transactions/settlement/second_node.py",
        "if count > 1]",
        "if count > 0]",
        ("tests/transactions/test_second_node.py",),
    ),
    177: Mutation(
        "A token with a tag reaches the relayers of every tag.",
        "relayers/reach.py",
        "filter(relayer__identifier=identifier, name__in=tags).exists()",
        "filter(relayer__identifier=identifier).exists()",
        ("tests/relayers/test_tags.py",),
    ),
    178: Mutation(
        "An undo overwrites what was changed since.",
        "relayers/jobs/undoing.py",
        "if not is_same(now.get(name), new)",
        "if False and not is_same(now.get(name), new)",
        ("tests/relayers/test_bulk_edit.py",),
    ),
    179: Mutation(
        "A job that may not start runs its first batch.",
        "relayer_service/jobs/running.py",
        """        if stopped_by is None:
            raise LeaseLostError
""",
        "",
        ("tests/relayers/test_bulk_edit.py",),
    ),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Break the product in one place after the other, and run its tests.")
    parser.add_argument("numbers", nargs="*", type=int, help="the mutations to make; all of them without a number")
    parser.add_argument("--check", action="store_true", help="run nothing: only find rows that no longer fit")
    parser.add_argument("--tree", type=Path, default=PROJECT, help="the checkout to copy")
    options = parser.parse_args(arguments)
    if unknown := set(options.numbers) - MUTATIONS.keys():
        parser.error(f"there is no mutation {min(unknown)}")
    chosen = {number: MUTATIONS[number] for number in options.numbers or MUTATIONS}
    if faults := [fault for number in chosen for fault in find_faults(options.tree, number)]:
        print("\n".join(faults))
        return 1
    if options.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="relayer-mutations-") as folder:
        copy = Path(folder)
        copy_tree(options.tree.resolve(), copy)
        return run(copy, chosen)


def copy_tree(tree: Path, copy: Path) -> None:
    """Copy what git knows or would add, and link what is installed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=tree, text=True).split("\0"):
        if name and (tree / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / name, copy / name)
    for name in LINKED:
        if (tree / name).exists():
            (copy / name).symlink_to((tree / name).resolve())


def run(copy: Path, mutations: dict[int, Mutation]) -> int:
    """Make one mutation after the other and print what came of it; return the exit code."""
    code, seconds, output = run_tests(copy, sorted({name for each in mutations.values() for name in each.tests}))
    if code != pytest.ExitCode.OK:
        print(f"{output}\nThe tests do not pass as they are: nothing can be said of the mutations.")
        return 1
    print(f"Without a mutation all named tests pass, in {seconds:.1f} s.", flush=True)
    uncaught = 0
    for number, mutation in mutations.items():
        with applied(copy / mutation.file, mutation):
            code, seconds, output = run_tests(copy, mutation.tests)
        test = failed_test(output)
        uncaught += not test
        # A product that does not even start says nothing of what the tests prove.
        word = "caught" if test else "SURVIVED" if code == pytest.ExitCode.OK else "ERROR"
        print(f"{number:>2} {word:8} {seconds:5.1f} s  {mutation.breaks} {test or output[-1000:]}", flush=True)
    print(f"{len(mutations) - uncaught} of {len(mutations)} mutations were caught.")
    return 1 if uncaught else 0


def find_faults(tree: Path, number: int) -> Iterator[str]:
    """Yield why a mutation does not fit a checkout."""
    mutation = MUTATIONS[number]
    path = tree / mutation.file
    count = path.read_text().count(mutation.before) if path.is_file() else 0
    if count != 1:
        yield f"Mutation {number}: {mutation.file} must contain the text to change once, and not {count} times."
    for name in mutation.tests:
        if not (tree / name).is_file():
            yield f"Mutation {number}: {name} does not exist."


@contextmanager
def applied(path: Path, mutation: Mutation) -> Iterator[None]:
    text = path.read_text()
    write(path, text.replace(mutation.before, mutation.after))
    try:
        yield
    finally:
        write(path, text)


def write(path: Path, text: str) -> None:
    path.write_text(text)
    # Python would take what was compiled within the same second from a text of the same length for up to date.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def run_tests(copy: Path, files: Iterable[str]) -> tuple[int, float, str]:
    """Run test files until one test fails; return pytest's exit code, the seconds it took and what it printed."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="relayer-tests-") as data:
        # On SQLite and without Redis, whatever is set for the suite.
        own = {"DATA_DIR": data, "DATABASE_URL": "", "TEST_REDIS_URL": "", "TEST_ONLY_DATABASE": "", "CI": ""}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", *files],
            cwd=copy,
            env=os.environ | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MAX_SECONDS,
        )
    return done.returncode, time.monotonic() - started, done.stdout


def failed_test(output: str) -> str:
    """Return the name of the test that noticed, from pytest's summary."""
    summary = output.rpartition("short test summary info")[2]
    found = re.search(r"^FAILED \S+::(\w+)", summary, re.M)
    return found[1] if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
