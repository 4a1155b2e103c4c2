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


class RelayerChangeData(RelayerData):
    # Who changed it, such as `user anna` or `health check`, and why, if a reason was given.
    actor: str
    reason: str


class RelayerDisabledData(RelayerChangeData):
    disabled_reason: DisabledReason


class RelayerBalanceData(RelayerData):
    # In wei, as text: many JSON parsers round numbers of this size.
    balance: str
    min_balance: str


class RelayerRunwayData(RelayerData):
    # In wei, as text. What leaves the account: gas, and coins that transactions send.
    balance: str
    outflow_per_day: str
    # Whole days until the balance is used up, and the number below which this is sent.
    runway_days: int
    threshold_days: int


Data = TypeVar("Data", bound=RelayerData)


class RelayerEvent(Event[Data]):
    def subject(self, data: Data) -> str:
        return data["relayer_id"]


RELAYER_DISABLED = RelayerEvent("relayer.disabled", RelayerDisabledData, "The health check disabled a relayer.")
RELAYER_ENABLED = RelayerEvent("relayer.enabled", RelayerChangeData, "The health check enabled a relayer again.")
RELAYER_PAUSED = RelayerEvent("relayer.paused", RelayerChangeData, "A relayer was paused.")
RELAYER_RESUMED = RelayerEvent("relayer.resumed", RelayerChangeData, "A relayer was resumed.")
RELAYER_TOP_UP_REMOVED = RelayerEvent(
    "relayer.top_up_removed",
    RelayerChangeData,
    "The automatic top-up of a relayer was removed, because its account or signer changed.",
)
RELAYER_LOW_BALANCE = RelayerEvent(
    "relayer.low_balance", RelayerBalanceData, "The balance of a relayer fell below its `min_balance`."
)
RELAYER_BALANCE_RECOVERED = RelayerEvent(
    "relayer.balance_recovered",
    RelayerBalanceData,
    "The balance of a relayer is no longer below its `min_balance`, which is `0` if it was removed.",
)
RELAYER_BALANCE_RUNWAY = RelayerEvent(
    "relayer.balance_runway",
    RelayerRunwayData,
    "At the rate of the last 7 days, the balance of a relayer is used up in less than `threshold_days` days.",
)
