"""Running a well-formed JSON-RPC request."""

import logging
import time
from typing import Any

from rest_framework.exceptions import ValidationError

from relayer_service.api.exceptions import faults
from relayer_service.observability.call_counts import OK
from relayers.models import Relayer
from rpc import counters, errors
from rpc.methods import find_method
from rpc.methods.base import Method

logger = logging.getLogger(__name__)

# All unknown methods share one count, as callers can send any name.
UNKNOWN = "unknown"


def answer(relayer: Relayer, name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Call a method and count the call; return its `result` or an `error`."""
    started = time.perf_counter()
    method = find_method(relayer.network_type, name)
    outcome = OK
    try:
        return {"result": run(method, relayer, params)}
    except errors.RpcError as error:
        outcome = str(error.code)
        return {"error": error.body()}
    finally:
        counters.count(relayer.pk, method.name if method else UNKNOWN, outcome, time.perf_counter() - started)


def run(method: Method | None, relayer: Relayer, params: dict[str, Any]) -> dict[str, Any]:
    """Return a method's result; every failure is an `RpcError`."""
    if method is None:
        raise errors.MethodNotFound(f"This method does not exist on relayers of type {relayer.network_type}.")
    try:
        validated = method.params.run_validation(params)
    except ValidationError as error:
        raise errors.InvalidParams("; ".join(fault.message for fault in faults(error))) from None
    try:
        return method.run(relayer, validated)
    except errors.RpcError:
        raise
    except Exception:
        logger.exception("The method %s failed", method.name, extra={"fields": {"relayer": relayer.identifier}})
        raise errors.InternalError from None
