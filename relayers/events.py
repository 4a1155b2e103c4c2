"""Events of relayers."""

from typing import TypedDict, TypeVar

from notifications.events import Event


class DisabledReason(TypedDict):
    type: str
    details: str


class RelayerData(TypedDict):
    relayer_id: str
    name: str
    network: str
    network_type: str


class RelayerDisabledData(RelayerData):
    disabled_reason: DisabledReason


class RelayerBalanceData(RelayerData):
    # In wei, as text: many JSON parsers round numbers of this size.
    balance: str
    min_balance: str


Data = TypeVar("Data", bound=RelayerData)


class RelayerEvent(Event[Data]):
    def subject(self, data: Data) -> str:
        return data["relayer_id"]


RELAYER_DISABLED = RelayerEvent("relayer.disabled", RelayerDisabledData, "The health check disabled a relayer.")
RELAYER_ENABLED = RelayerEvent("relayer.enabled", RelayerData, "The health check enabled a relayer again.")
RELAYER_PAUSED = RelayerEvent("relayer.paused", RelayerData, "A relayer was paused.")
RELAYER_RESUMED = RelayerEvent("relayer.resumed", RelayerData, "A relayer was resumed.")
RELAYER_LOW_BALANCE = RelayerEvent(
    "relayer.low_balance", RelayerBalanceData, "The balance of a relayer fell below its `min_balance`."
)
RELAYER_BALANCE_RECOVERED = RelayerEvent(
    "relayer.balance_recovered",
    RelayerBalanceData,
    "The balance of a relayer is no longer below its `min_balance`, which is `0` if it was removed.",
)
