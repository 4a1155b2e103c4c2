"""Fee tokens and their price sources."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone
from eth_utils.address import to_checksum_address

from chain.networks import networks, unknown
from relayer_service.amounts import BASIS_POINTS, parse_rate
from relayer_service.database.prefixes import prefix_index
from relayer_service.evm import validate_evm_address
from relayer_service.storage.resources import first_state
from relayers.policies import MAX_AMOUNT

# The maximum of an integer column on every engine.
MAX_SECONDS = 2**31 - 1
SECONDS = [MinValueValidator(1), MaxValueValidator(MAX_SECONDS)]

PRICE_STATES = ["ok", "stale", "failed", "not read yet", "off"]
# The worker reads prices every minute.
STALE_AFTER = timedelta(minutes=3)


def validate_network(value: str) -> None:
    if value not in networks():
        raise ValidationError(unknown(value, "add it to NETWORKS_FILE"))


def validate_amount(value: str) -> None:
    if not (value.isascii() and value.isdigit() and int(value) <= MAX_AMOUNT):
        raise ValidationError(f"a whole number from 0 to {MAX_AMOUNT} is required")


class AddressField(models.CharField):  # type: ignore[type-arg]  # Django cannot subscript it
    """An EVM address, stored with its checksum."""

    default_validators = [validate_evm_address]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"max_length": 42, **kwargs})

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        cleaned = super().clean(value, model_instance)
        return to_checksum_address(cleaned) if cleaned else cleaned


class FeeTokenQuerySet(models.QuerySet["FeeToken"]):
    def with_state(self) -> models.QuerySet[Any]:
        """Annotate each token with the `state` of its price."""
        troubles = {
            "off": models.Q(enabled=False),
            "failed": ~models.Q(rate_error=""),
            "not read yet": models.Q(rated_at=None),
            "stale": models.Q(rated_at__lt=timezone.now() - STALE_AFTER),
        }
        return self.annotate(state=first_state(troubles, "ok"))


class FeeToken(models.Model):
    """A token that fees can be quoted in, on one network."""

    network = models.CharField(max_length=64, validators=[validate_network])
    symbol = models.CharField(
        max_length=32,
        validators=[RegexValidator(r"^[^\s\x00-\x1f\x7f]+\Z", "spaces and control characters are not allowed")],
        help_text="Exact symbol used in fee_token (case-sensitive).",
    )
    address = AddressField(help_text="The token's contract, from which its decimals are read once.")
    enabled = models.BooleanField(default=True, help_text="Fees cannot be quoted in a disabled token.")
    margin_bps = models.PositiveIntegerField(
        "margin",
        default=0,
        validators=[MaxValueValidator(BASIS_POINTS)],
        help_text="Added to every fee, in basis points (hundredths of a percent).",
    )
    max_spread_bps = models.PositiveIntegerField(
        "maximum spread",
        default=200,
        validators=[MaxValueValidator(BASIS_POINTS)],
        help_text="In basis points. The token has no price if its sources differ by more.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    # Read from the chain.
    decimals = models.PositiveSmallIntegerField(null=True, editable=False)
    # The last price that the worker read, for the admin and the metrics; no fee is computed from it.
    rate_text = models.TextField("last rate", blank=True, editable=False)
    rated_at = models.DateTimeField("last price read", null=True, editable=False)
    rate_error = models.TextField("last error", blank=True, editable=False)
    rate_details = models.JSONField(default=list, editable=False)

    CONFIGURED = ["network", "symbol", "address", "enabled", "margin_bps", "max_spread_bps"]

    objects = FeeTokenQuerySet.as_manager()

    class Meta:
        ordering = ["network", "symbol"]
        permissions = [("refresh_feetoken", "Can read the prices of fee tokens now")]
        indexes = [
            prefix_index("symbol", name="fee_token_symbol_prefix", key="id"),
            prefix_index("address", name="fee_token_address_prefix", key="id"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["network", "symbol"], name="fee_token_symbol_once_a_network"),
            models.UniqueConstraint(fields=["network", "address"], name="fee_token_address_once_a_network"),
        ]

    def __str__(self) -> str:
        return f"{self.symbol} on {self.network}"

    def audited(self) -> dict[str, Any]:
        sources = [source.audited() for source in self.sources.all()]
        return {name: getattr(self, name) for name in self.CONFIGURED} | {"sources": sources}

    @staticmethod
    def outdated_by(changed: set[str]) -> dict[str, Any]:
        """Return the columns to clear after a change, as they were read from another contract or other sources."""
        outdated: dict[str, Any] = {"decimals": None} if changed & {"network", "address"} else {}
        if changed & {"network", "address", "max_spread_bps", "sources"}:
            outdated |= {"rate_text": "", "rated_at": None, "rate_error": "", "rate_details": []}
        return outdated

    def clean(self) -> None:
        known = networks().get(self.network)
        if known and self.symbol == known.symbol:
            raise ValidationError({"symbol": f"{self.symbol} is the native coin of {self.network}"})


class PriceSource(models.Model):
    """A source of a token's price; the price is the median of all its sources."""

    class Kind(models.TextChoices):
        FIXED = "fixed", "Fixed rate"
        CHAINLINK_USD = "chainlink_usd", "Chainlink, token/USD with native/USD"
        CHAINLINK_NATIVE = "chainlink_native", "Chainlink, token/native"
        UNISWAP_V2 = "uniswap_v2", "Uniswap v2 pair"

    token = models.ForeignKey(FeeToken, on_delete=models.CASCADE, related_name="sources")
    kind = models.CharField(max_length=32, choices=Kind)

    rate_text = models.CharField(
        "rate", max_length=200, blank=True, help_text="Tokens for one native coin, as a decimal number."
    )
    rate_set_at = models.DateTimeField(null=True, blank=True, editable=False)
    max_age_seconds = models.PositiveIntegerField(
        "age limit", null=True, blank=True, validators=SECONDS, help_text="In seconds. An older fixed rate is stale."
    )
    feed = AddressField(blank=True, help_text="The feed of the token's price, in USD or in the native coin.")
    heartbeat_seconds = models.PositiveIntegerField(
        "heartbeat",
        null=True,
        blank=True,
        validators=SECONDS,
        help_text="In seconds, as published for the feed. An answer is stale if it is older by more than a tenth of "
        "this or a minute, whichever is longer.",
    )
    native_feed = AddressField(blank=True, help_text="The feed of the native coin's price in USD.")
    native_heartbeat_seconds = models.PositiveIntegerField(
        "heartbeat of the native feed", null=True, blank=True, validators=SECONDS
    )
    sequencer_feed = AddressField(
        blank=True,
        help_text="The feed that reports whether a rollup's sequencer is up. By default that of the network, if any.",
    )
    sequencer_grace_seconds = models.PositiveIntegerField(
        "grace after an outage",
        default=3600,
        validators=[MaxValueValidator(MAX_SECONDS)],
        help_text="In seconds. Prices are stale for this long after the sequencer is up again.",
    )
    pair = AddressField(blank=True, help_text="The pair of the token and the wrapped native coin.")
    wrapped_native = AddressField(blank=True, help_text="The contract of the wrapped native coin in the pair.")
    min_liquidity_text = models.CharField(
        "minimum liquidity",
        max_length=78,
        blank=True,
        validators=[validate_amount],
        help_text="In the native coin's smallest unit (wei). A pair that holds less has no price.",
    )
    # The bounds of each feed's aggregator, written by `rpc/fees/bound_checks.py`.
    feed_bounds = models.JSONField(default=dict, db_default={}, editable=False)

    # The columns of each kind; the others stay empty.
    REQUIRED = {
        Kind.FIXED: ["rate_text", "max_age_seconds"],
        Kind.CHAINLINK_USD: ["feed", "heartbeat_seconds", "native_feed", "native_heartbeat_seconds"],
        Kind.CHAINLINK_NATIVE: ["feed", "heartbeat_seconds"],
        Kind.UNISWAP_V2: ["pair", "wrapped_native", "min_liquidity_text"],
    }
    OPTIONAL = {
        Kind.CHAINLINK_USD: ["sequencer_feed", "sequencer_grace_seconds"],
        Kind.CHAINLINK_NATIVE: ["sequencer_feed", "sequencer_grace_seconds"],
    }

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.get_kind_display()

    @property
    def stored(self) -> tuple[Any, ...]:
        """The columns that staff set, to detect changes."""
        columns = (field.attname for field in self._meta.concrete_fields if field.attname != "feed_bounds")
        return tuple(getattr(self, name) for name in columns)

    def audited(self) -> dict[str, Any]:
        """Return the columns that staff set, by their names in fleet files."""
        names = {name.removesuffix("_text"): getattr(self, name) for name in self.fields_of(self.kind)}
        return {"kind": self.kind} | {name: value for name, value in names.items() if value not in {"", None}}

    @property
    def feeds(self) -> list[str]:
        return [feed for feed in (self.feed, self.native_feed) if feed]

    @classmethod
    def fields_of(cls, kind: str) -> list[str]:
        return [*cls.REQUIRED[cls.Kind(kind)], *cls.OPTIONAL.get(cls.Kind(kind), [])]

    def clean(self) -> None:
        if self.kind not in self.Kind.values:
            return
        faults = {
            name: "required for this kind of source"
            for name in self.REQUIRED[self.Kind(self.kind)]
            if getattr(self, name) in {"", None}
        }
        if self.kind == self.Kind.FIXED and self.rate_text:
            try:
                parse_rate(self.rate_text)
            except ValueError as error:
                faults["rate_text"] = str(error)
        if faults:
            raise ValidationError(faults)
