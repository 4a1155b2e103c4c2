"""The backends of stored signers, each created once and reused with its clients and logins; and Verify."""

import threading
import time
from collections import OrderedDict
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string
from eth_utils.crypto import keccak

from relayer_service.audit.recording import changed, record
from relayer_service.storage.encryption import DecryptionError
from signers.backends.base import Backend, Curve, Ed25519Backend, Secp256k1Backend, SignerError
from signers.config_shapes import SignerType
from signers.models import MAX_ERROR_LENGTH, Signer

# Verify signs this text, which is not a transaction of any network.
CHALLENGE = b"Relayer Management Service: this signature shows that the signer works."
MAX_BACKENDS = 1_000

_backends: OrderedDict[tuple[int, str, str], Backend[Any]] = OrderedDict()
_lock = threading.Lock()


def backend_class(signer_type: str) -> type[Backend[Any]]:
    backend: type[Backend[Any]] = import_string(settings.SIGNER_BACKENDS[signer_type])
    return backend


def curve(signer: Signer) -> Curve:
    return backend_class(signer.type).curve


def incompatibility(signer: Signer, network_type: str) -> str:
    """Return why a signer cannot serve a network type, or "" if it can."""
    if network_type in curve(signer).network_types:
        return ""
    label = SignerType(signer.type).label
    reason = f"{label} is an {curve(signer)} signer: it signs messages only"
    return f"{reason} and cannot be used by an {network_type} relayer."


def backend_for(signer: Signer) -> Backend[Any]:
    """Return the backend of a signer, cached until its config or the result of Verify changes."""
    version = (signer.pk, signer.config_version, signer.verified_identity)
    with _lock:
        backend = _backends.get(version)
        if backend is None:
            try:
                config = signer.full_config()
            except DecryptionError as error:
                raise SignerError(str(error)) from None
            # Backends of an older config are dropped with their secrets.
            _drop_backends(signer)
            backend = _backends[version] = backend_class(signer.type)(config)
        _backends.move_to_end(version)
        while len(_backends) > MAX_BACKENDS:
            _backends.popitem(last=False)
    return backend


def account_backend(signer: Signer, address: str) -> Secp256k1Backend:
    """Return the backend of a signer; raise `SignerError` unless it signs for this EVM address.

    This may call a server.
    """
    backend = backend_for(signer)
    if not isinstance(backend, Secp256k1Backend):
        raise SignerError(incompatibility(signer, "evm"))
    if backend.address() != address:
        raise SignerError(f"The signer's address is not {address} any more.")
    return backend


def _drop_backends(signer: Signer) -> None:
    for version in [version for version in _backends if version[0] == signer.pk]:
        del _backends[version]


def is_local(signer: Signer) -> bool:
    """Return whether the signer's key is stored here, so that its address is derived without calling a server."""
    return signer.type == SignerType.PLAIN


def read_identity(signer: Signer) -> str:
    """Return the address or public key of a signer whose config need not be saved; this may call a server."""
    return backend_class(signer.type)(signer.full_config()).identity()


def known_identity(signer: Signer) -> str:
    """Return the address or public key of a signer, or "" if that would call a server."""
    if signer.verified_identity or not is_local(signer):
        return signer.verified_identity
    try:
        return backend_for(signer).identity()
    except SignerError:
        return ""


def check(signer_type: SignerType, config: dict[str, Any]) -> None:
    backend_class(signer_type)(config).check()


def missing_library(signer_type: str) -> SignerError | None:
    """Return an error with the command that installs the library of a signer type, or None if it is installed."""
    library = backend_class(signer_type).library
    return library.missing() if library and not library.is_installed() else None


def verify(signer: Signer) -> tuple[str, int]:
    """Sign a fixed challenge, and save the address or public key, or the error; return it and the milliseconds."""
    started = time.monotonic()
    # Without the cached public key: the provider may have replaced it.
    with _lock:
        _drop_backends(signer)
    try:
        identity = _prove(backend_for(signer))
    except SignerError as error:
        note_error(signer, str(error))
        raise
    with transaction.atomic():
        before = unchanged(signer).select_for_update().values("verified_identity").first()
        if before is None:
            raise SignerError("The signer was changed concurrently.", permanent=False)
        unchanged(signer).update(verified_identity=identity, verified_at=timezone.now(), last_error="")
        record([changed(signer, before, {"verified_identity": identity})])
    return identity, round((time.monotonic() - started) * 1000)


def _prove(backend: Backend[Any]) -> str:
    identity = backend.identity()
    if isinstance(backend, Secp256k1Backend):
        backend.sign_digest(keccak(CHALLENGE))
    elif isinstance(backend, Ed25519Backend):
        backend.sign(CHALLENGE)
    return identity


def note_error(signer: Signer, text: str) -> None:
    """Save the error of the last call to a signer, or "" for success."""
    text = text[:MAX_ERROR_LENGTH]
    if signer.last_error != text:
        signer.last_error = text
        unchanged(signer).update(last_error=text)


def unchanged(signer: Signer) -> QuerySet[Signer]:
    """Return the row of a signer, unless its config has changed since it was read."""
    return Signer.objects.filter(pk=signer.pk, secrets=signer.sealed_secrets, config=signer.config)
