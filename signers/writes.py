"""The single write path of signers."""

from collections.abc import Sequence
from typing import Any, Self

from relayer_service.writes import Values, Write
from signers.config_shapes import CONFIGS, SignerType
from signers.followers import counted, get_follower
from signers.models import Signer


class SignerWrite(Write[Signer]):
    model = Signer
    inserts_one_row = True

    def __init__(self, row: Signer) -> None:
        super().__init__(row)
        # The new address of the signer's followers, empty if it is unknown; None if they do not move.
        self.followed_to: str | None = None

    def set(self, values: Values) -> None:
        if self.is_new:
            self.row.type = values["type"]
            self.row.set_config(values["config"])
        elif "config" in values:
            self._replace_config(values["config"])

    def _replace_config(self, config: dict[str, Any]) -> None:
        row = self.row
        before = {**row.config, **(row.readable_secrets() or {})}
        shape = CONFIGS[SignerType(row.type)]
        for name in map(str, shape().fields):
            if before.get(name) != config.get(name):
                self.note(f"config.{name}", "config" if name in shape.shown else "secrets")
        if not self.fields:
            return
        sealed = row.sealed_secrets
        row.set_config(config)
        if "secrets" not in self.columns:
            # Unchanged secrets are not encrypted again.
            row.secrets = sealed
        self.columns |= {"verified_identity", "verified_at", "last_error"}

    @classmethod
    def save_all(cls, writes: Sequence[Self], reason: str = "") -> None:
        super().save_all(writes, reason)
        for write in writes:
            if write.followed_to is not None:
                write._move_followers(write.followed_to)

    def _move_followers(self, address: str) -> None:
        follower = get_follower()
        if moved := follower.follow(self.row, address):
            rows = counted(follower.rows(self.row).model, moved)
            self.warnings.append(("config", f"moved to {address or 'no address'}: {rows}"))


def kept_secrets(row: Signer | None, signer_type: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the current secrets, unless the type changes or they would be sent to another destination."""
    if row is None or signer_type != row.type or changed_destination(row, config):
        return {}
    return row.readable_secrets() or {}


def changed_destination(row: Signer, config: dict[str, Any]) -> str:
    """Return the first changed field that determines where the secrets are sent, or ""."""
    names = CONFIGS[SignerType(row.type)].destination
    return next((name for name in names if config.get(name) != row.config.get(name)), "")
