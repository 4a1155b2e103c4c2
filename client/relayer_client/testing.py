"""A fake of the service in memory, for tests of programs that use the client.

service = FakeService()
transaction = service.client().relayer("sender").send(to=receiver, value=1)
service.move(transaction, "confirmed")
service.inject(LOST, THROTTLED)
"""

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from threading import RLock
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import httpx

from relayer_client import AsyncClient, Client, Retries, Transaction
from relayer_client._sync.transport import PREFIX
from relayer_client.addresses import checksummed
from relayer_client.results import FINAL, TransactionStatus
from relayer_client.web3_fields import TYPED_DATA_NAMES

# The account of all relayers, whose key is no secret.
KEY = f"0x{1:064x}"
SENDER = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
NETWORK = "hardhat"
ACTIVE = {"network_type": "evm", "paused": False, "system_disabled": False}
NAMES = [field.metadata.get("name", field.name) for field in fields(Transaction)]
PROGRESS = ("pending", "sent", "submitted", "mined", *FINAL)
UNSENT = frozenset({"pending", "expired", "canceled"})
MINED = frozenset({"mined", "confirmed", "failed"})
AMOUNTS = ("value", "gas_limit", "gas_price", "max_fee_per_gas", "max_priority_fee_per_gas")
CANCELING = "It is being replaced by a no-op: Its cancellation was requested."
AT_ONCE = Retries(first_pause=0)
HASHES = ("domain_separator", "hash_struct_message")
NO_TOKENS: Mapping[str, int] = {}


@dataclass(frozen=True)
class Fault:
    """What a request gets in place of its response: an error of httpx, or a status and a code.

    A request that `arrives` is carried out nevertheless.
    """

    cause: type[httpx.TransportError] | tuple[int, str]
    arrives: bool = False


REFUSED = Fault(httpx.ConnectError)
LOST = Fault(httpx.ReadError, arrives=True)
SLOW = Fault(httpx.ReadTimeout, arrives=True)
THROTTLED = Fault((429, "throttled"))
FAILED = Fault((500, "internal_error"))


class FakeService:
    """A service with any relayer, whose transactions are on no chain. It checks keys, but neither tokens nor fields.

    `move` changes the status of a transaction; with `reaches`, each has this one at the next request. `decimals` are
    those of tokens, by address. `requests` are all that were sent, and `data` what other operations return, such as
    `{"GET /signers/s": {...}}`; that of `POST /relayers/sender/rpc` is the result of a JSON-RPC call.
    """

    url = "http://relayer.test"

    def __init__(self, *, reaches: TransactionStatus = "pending", decimals: Mapping[str, int] = NO_TOKENS) -> None:
        self.transport: httpx.MockTransport = httpx.MockTransport(self._respond)
        self.requests: list[httpx.Request] = []
        self.data: dict[str, Any] = {}
        # Of each relayer, in wei.
        self.balance: int = 10**19
        # Of the header `Relayer-Generation`.
        self.generation: int = 0
        self._reaches: TransactionStatus = reaches
        self._decimals = decimals
        self._faults: deque[Fault] = deque()
        self._rows: dict[str, dict[str, Any]] = {}
        self._keys: dict[tuple[str, str], tuple[str, str]] = {}
        self._nonces: Counter[str] = Counter()
        # The transaction of each attempt, by hash.
        self._attempts: dict[str, str] = {}
        self._lock = RLock()

    def client(self, **options: Any) -> Client:
        """Return a client, which repeats requests without pauses. Options are those of `Client`."""
        return Client(self.url, "rms_fake", **self._options(httpx.Client, options))

    def async_client(self, **options: Any) -> AsyncClient:
        return AsyncClient(self.url, "rms_fake", **self._options(httpx.AsyncClient, options))

    def _options(self, kind: type[httpx.Client | httpx.AsyncClient], options: dict[str, Any]) -> dict[str, Any]:
        # Without those of connections, as there are none.
        given = {name: value for name, value in options.items() if name not in {"timeout", "verify", "proxy"}}
        return {"http": kind(transport=self.transport), "retries": AT_ONCE, **given}

    def inject(self, *faults: Fault) -> None:
        """Let the next requests fail, one for each fault."""
        self._faults.extend(faults)

    def move(self, transaction: Transaction | str, status: TransactionStatus, reason: str | None = None) -> None:
        """Change the status of a transaction, and the fields that depend on it."""
        with self._lock:
            row = self._rows[transaction if isinstance(transaction, str) else transaction.id]
            if row["status"] in FINAL or PROGRESS.index(status) < PROGRESS.index(row["status"]):
                raise ValueError(f"A transaction that is {row['status']} cannot become {status}.")
            if status not in UNSENT and row["nonce"] is None:
                row |= {"nonce": self._nonces[row["relayer_id"]], "sent_at": _timestamp()}
                self._nonces[row["relayer_id"]] += 1
                self._sign(row)
            if status in MINED | FINAL and row["nonce"] is not None and row["block_number"] is None:
                row |= {"block_number": 1, "gas_used": 21_000, "effective_gas_price": "1"}
                row["contract_address"] = SENDER if status in {"mined", "confirmed"} and not row["to"] else None
            done_at = _timestamp() if status == "confirmed" else None
            row |= {"status": status, "version": row["version"] + 1, "confirmed_at": done_at}
            row["status_reason"] = reason or (None if done_at else f"It is {status}.")
            row["is_canceled"] |= status == "canceled"

    def _sign(self, row: dict[str, Any]) -> None:
        self.generation += 1
        row |= {"hash": f"0x{token_hex(32)}", "signature": _signature(token_hex(32), token_hex(32), 27)}
        self._attempts[row["hash"]] = row["id"]
        row["gas_limit"] = row["gas_limit"] or 21_000

    def _respond(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests.append(request)
            fault = self._faults.popleft() if self._faults else None
            if fault is None or fault.arrives:
                response = self._carry_out(request)
            if fault is not None:
                if not isinstance(fault.cause, tuple):
                    raise fault.cause("An injected fault.")
                response = _error(*fault.cause)
            response.headers["X-Request-ID"] = request.headers.get("X-Request-ID", uuid4().hex)
            return response

    def _carry_out(self, request: httpx.Request) -> httpx.Response:
        for row in self._rows.values():
            if row["status"] not in FINAL and PROGRESS.index(row["status"]) < PROGRESS.index(self._reaches):
                self.move(row["id"], "canceled" if row["is_canceled"] else self._reaches)
        path = request.url.raw_path.decode().partition("?")[0].removeprefix(PREFIX)
        if (name := f"{request.method} {path}") in self.data:
            data = self.data[name]
            is_page = request.method == "GET" and isinstance(data, list)
            return self._ok_list(data) if is_page else self._ok(data, result=data)
        for pattern, operation in OPERATIONS.items():
            if found := re.fullmatch(pattern, name):
                return operation(self, request, *map(unquote, found.groups()))
        raise NotImplementedError(f"The fake service has no {name}: set it in `data`.")

    def _ok(self, data: Any, **rest: Any) -> httpx.Response:
        body = {"data": data, "error": "", "metadata": {"logs": [], "traces": []}, "success": True, **rest}
        return httpx.Response(200, json=body, headers={"Relayer-Generation": str(self.generation)})

    def _ok_list(self, rows: list[Any]) -> httpx.Response:
        return self._ok(rows, pagination={"per_page": len(rows), "total_items": len(rows)})

    def _relayer(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        names = dict.fromkeys(("id", "name", "signer_id"), relayer_id)
        return self._ok({**ACTIVE, **names, "network": NETWORK, "address": SENDER})

    def _status(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        rows = [row for row in self._rows.values() if row["relayer_id"] == relayer_id]
        account = {"balance": str(self.balance), "nonce": str(self._nonces[relayer_id])}
        times = dict.fromkeys(("balance_at", "checked_at"), _timestamp())
        last = max((row["confirmed_at"] for row in rows if row["confirmed_at"]), default=None)
        pending = sum(row["status"] not in FINAL for row in rows)
        counts = {"pending_transactions_count": pending, "last_confirmed_transaction_timestamp": last}
        return self._ok(ACTIVE | account | times | counts)

    def _fee_tokens(self, request: httpx.Request) -> httpx.Response:
        common = {"network": NETWORK, "enabled": True, "margin_bps": 0, "max_spread_bps": 0, "sources": []}
        is_found = request.url.params.get("network", NETWORK) == NETWORK
        tokens = [{"address": each, "decimals": self._decimals[each]} for each in self._decimals if is_found]
        return self._ok_list([common | each | {"id": each["address"], "symbol": each["address"]} for each in tokens])

    def _sign_content(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        """Sign a message or typed data, as the service does, with a key of the tests."""
        from eth_account import Account
        from eth_account.messages import SignableMessage, encode_defunct, encode_typed_data
        from hexbytes import HexBytes

        body = json.loads(request.content)
        if "domain_separator" in body:
            content = SignableMessage(HexBytes(1), *(HexBytes(body[name]) for name in HASHES))
        elif "types" in body:
            content = encode_typed_data(
                full_message={name: body[field] for name, field in TYPED_DATA_NAMES.items() if field in body}
            )
        else:
            content = encode_defunct(text=body.get("message"), hexstr=body.get("message_hex"))
        signed = Account.sign_message(content, KEY)
        return self._ok(_signature(f"{signed.r:064x}", f"{signed.s:064x}", signed.v))

    def _send(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        body, key = json.loads(request.content), request.headers.get("idempotency-key", "")
        text = json.dumps(body, sort_keys=True)
        row_id, earlier = self._keys.get((relayer_id, key), (str(uuid4()), text))
        if earlier != text:
            return _error(409, "idempotency_key_reused", "The Idempotency-Key was already used with a different body")
        if row_id not in self._rows:
            now = datetime.now(UTC)
            constant = {"id": row_id, "relayer_id": relayer_id, "from": SENDER, "created_at": _timestamp(now)}
            state = {"status": "pending", "status_reason": "It is queued.", "version": 1, "is_canceled": False}
            labels = {"external_id": body.get("external_id"), "metadata": body.get("metadata") or {}}
            self._rows[row_id] = dict.fromkeys(NAMES) | constant | state | labels | _payload(body, now)
        if key:
            self._keys[relayer_id, key] = row_id, text
        return self._ok(self._rows[row_id])

    def _dry_run(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        names = (*AMOUNTS[1:], "max_gas_cost", "reason")
        return self._ok({"allowed": True, "checks": [], "limits": [], "estimate": dict.fromkeys(names)})

    def _list(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        wanted = {"relayer_id": relayer_id, **request.url.params}
        del wanted["per_page"]
        if unknown := ", ".join(wanted.keys() - {*NAMES, "idempotency_key"}):
            raise NotImplementedError(f"The fake service cannot filter by {unknown}.")
        rows = reversed(self._rows.values())
        return self._ok_list([row for row in rows if all(self._has(row, *each) for each in wanted.items())])

    def _has(self, row: dict[str, Any], name: str, value: str) -> bool:
        if name == "idempotency_key":
            return bool(self._keys.get((row["relayer_id"], value), ("",))[0] == row["id"])
        if name == "hash":
            return bool(self._attempts.get(value.lower()) == row["id"])
        if name == "metadata":
            key, _, value = value.partition(":")
            return bool(row[name].get(key) == value)
        return bool(row[name] == (checksummed(value) if name == "to" else value))

    def _get_by_nonce(self, request: httpx.Request, relayer_id: str, nonce: str) -> httpx.Response:
        found = [row for row in self._rows.values() if (row["relayer_id"], row["nonce"]) == (relayer_id, int(nonce))]
        return self._ok(found[0]) if found else _error(404, "not_found", f"Transaction with nonce {nonce} not found")

    def _get(self, request: httpx.Request, relayer_id: str, row_id: str) -> httpx.Response:
        row = self._rows.get(row_id, {})
        is_found = row.get("relayer_id") == relayer_id
        return self._ok(row) if is_found else _error(404, "not_found", f"Transaction with ID {row_id} not found")

    def _change(self, request: httpx.Request, relayer_id: str, row_id: str) -> httpx.Response:
        """Cancel, replace or speed up a transaction."""
        if (found := self._get(request, relayer_id, row_id)).is_error:
            return found
        row = self._rows[row_id]
        if row["status"] in FINAL | MINED:
            return _error(409, "not_changeable", f"Its status is {row['status']}.")
        if request.method == "DELETE" and row["nonce"] is None:
            self.move(row_id, "canceled", "It was canceled before it was sent.")
            return self._ok(row)
        if request.method == "DELETE":
            row |= {"is_canceled": True, "status_reason": CANCELING}
        elif request.method == "PUT":
            row |= _payload(json.loads(request.content), datetime.now(UTC))
        if row["nonce"] is not None:
            self._sign(row)
        row["version"] += 1
        return self._ok(row)

    def _cancel_all(self, request: httpx.Request, relayer_id: str) -> httpx.Response:
        open_rows = [row for row in self._rows.values() if row["status"] not in FINAL | MINED]
        ids = [row["id"] for row in open_rows if row["relayer_id"] == relayer_id]
        for row_id in ids:
            self._change(request, relayer_id, row_id)
        names = ("queued_for_cancellation_transaction_ids", "failed_to_queue_transaction_ids", "total_processed")
        return self._ok(dict(zip(names, (ids, [], len(ids)), strict=True)))


def _payload(body: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return the fields of a transaction that a request sets."""
    amounts = {name: body.get(name) for name in AMOUNTS}
    whole = {name: value and int(str(value), 16 if "x" in str(value) else 10) for name, value in amounts.items()}
    shown = {name: value if value is None or name == "gas_limit" else str(value) for name, value in whole.items()}
    data = (body.get("data") or "").lower().removeprefix("0x")
    end = body.get("valid_until")
    return shown | {
        "to": checksummed(body["to"]) if body.get("to") else None,
        "data": f"0x{data}" if data else None,
        "data_size": len(data) // 2,
        "speed": body.get("speed") or (None if any(shown[name] for name in AMOUNTS[2:]) else "fast"),
        "valid_until": _timestamp(datetime.fromisoformat(end) if end else now + timedelta(hours=8)),
    }


def _signature(r: str, s: str, v: int) -> dict[str, Any]:
    return {"r": r, "s": s, "v": v, "sig": f"{r}{s}{v:x}"}


def _timestamp(at: datetime | None = None) -> str:
    return (at or datetime.now(UTC)).astimezone(UTC).isoformat()


def _error(status: int, code: str, message: str = "") -> httpx.Response:
    body = {"data": None, "message": message or httpx.codes.get_reason_phrase(status), "success": False}
    return httpx.Response(status, json=body, headers={"Error-Code": code, "Retry-After": "0"})


RELAYER = "/relayers/([^/]+)"
ROWS = f"{RELAYER}/transactions"
OPERATIONS: dict[str, Callable[..., httpx.Response]] = {
    "GET /health": lambda service, request: httpx.Response(200, json={"status": "ok"}),
    "GET /fee-tokens": FakeService._fee_tokens,
    f"GET {RELAYER}": FakeService._relayer,
    f"GET {RELAYER}/status": FakeService._status,
    f"GET {RELAYER}/balance": lambda service, *_: service._ok({"balance": service.balance, "unit": "wei"}),
    f"POST {RELAYER}/sign(?:-typed-data)?": FakeService._sign_content,
    f"POST {ROWS}": FakeService._send,
    f"GET {ROWS}": FakeService._list,
    f"POST {ROWS}/dry-run": FakeService._dry_run,
    f"DELETE {ROWS}/pending": FakeService._cancel_all,
    f"GET {ROWS}/by-nonce/([0-9]+)": FakeService._get_by_nonce,
    f"GET {ROWS}/([0-9a-f-]+)": FakeService._get,
    f"(?:DELETE|PUT) {ROWS}/([0-9a-f-]+)": FakeService._change,
    f"POST {ROWS}/([0-9a-f-]+)/speed-up": FakeService._change,
}
