"""The models, where Django looks for them: what staff set (`relayers`), and what the service finds out (`health`)."""

from relayers.models.health import NO_READINGS, RelayerHealth
from relayers.models.nodes import NodeOutage
from relayers.models.relayers import (
    ACCOUNT_COLUMNS,
    ACTIVE,
    CONDITIONS,
    MASKED_COLUMNS,
    MAX_CHAIN_ID,
    NOT_FOUND,
    PRIVATE,
    PROBLEMS,
    UNKNOWN_NODES,
    Relayer,
    find_relayer,
    validate_signing_kinds,
)
from relayers.models.tags import RelayerTag

__all__ = [
    "ACCOUNT_COLUMNS", "ACTIVE", "CONDITIONS", "MASKED_COLUMNS", "MAX_CHAIN_ID", "NOT_FOUND", "NO_READINGS", "PRIVATE",
    "PROBLEMS", "UNKNOWN_NODES", "NodeOutage", "Relayer", "RelayerHealth", "RelayerTag", "find_relayer",
    "validate_signing_kinds",
]  # fmt: skip
