"""From a well-formed JSON-RPC request to what its answer holds."""

import logging
import time
from typing import Any

from rest_framework.exceptions import ValidationError

from relayer_service.api.exceptions import faults
from rpc import counters, errors, registry
from rpc.methods.base import Method
from rpc.relayer_lookup import RpcRelayer

logger = logging.getLogger(__name__)

# What a call of an unknown method is counted as: callers choose names without end.
UNKNOWN = "unknown"
OK = "ok"


def answer(relayer: RpcRelayer, name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Call a method and count the call; return its `result` or an `error`."""
    started = time.perf_counter()
    method = registry.find(relayer.network_type, name)
    outcome = OK
    try:
        return {"result": run(method, relayer, params)}
    except errors.RpcError as error:
        outcome = str(error.code)
        return {"error": error.body()}
    finally:
        counters.count(relayer.pk, method.name if method else UNKNOWN, outcome, time.perf_counter() - started)


def run(method: Method | None, relayer: RpcRelayer, params: dict[str, Any]) -> dict[str, Any]:
    """Return a method's result; whatever goes wrong becomes an `RpcError`."""
    if method is None:
        raise errors.MethodNotFound(f"There is no such method on a relayer of the type {relayer.network_type}.")
    try:
        validated = method.params.run_validation(params)
    except ValidationError as error:
        raise errors.InvalidParams("; ".join(faults(error))) from None
    try:
        return method.run(relayer, validated)
    except errors.RpcError:
        raise
    except Exception:
        logger.exception("The method %s failed", method.name, extra={"fields": {"relayer": relayer.identifier}})
        raise errors.InternalError from None
