"""Bad requests: one entry per fault, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from chain.networks import networks
from signers.models import Signer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from transactions.models import Lane, StatusChange, Transaction

OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
WEI = "a whole number from 0 to 2^256 - 1 is required, as an integer or a string of digits"
GAS = "a whole number from 0 to 2^63 - 1 is required, as an integer or a string of digits"
EXPONENT = 'a number with an exponent may be rounded: send a string, such as "1000000000000000000000"'
TIME = "valid_until: a time with its offset as in RFC 3339 is required"
HEX = "data: an even number of hexadecimal digits is required, with or without 0x"
ONE_PRICE = "only one of gas_price, the two maximum fees and speed can be sent"
CONTROL = "external_id: control characters are not allowed here"
KEY = "metadata: a key has 1 to 40 letters, digits, dots, hyphens and underscores"
VALUE = "metadata: a value is a string of at most 500 characters without control characters"
CREATION = {"value": 0, "data": "0x00"}
GAS_LIMITS = "the minimum of this transaction on sepolia"
RECEIVERS = "to: The relayer's policy whitelist_receivers does not allow"
CAP = "gas_price: must not be above the relayer's policy gas_price_cap, 10 wei"
ABOVE = {"max_fee_per_gas": 11, "max_priority_fee_per_gas": 1}


def refused(sender: Api, body: Any, *faults: str) -> None:
    answer = sender.post(PATH, body)
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(*faults))
    assert [model.objects.count() for model in (Transaction, StatusChange, Lane)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"nonce": 1, "not_before": 2}, ["nonce: this field is read-only", "not_before: unknown field"]),
        ({"value": None}, ["value: null is not allowed here"]),
        *(({"value": value}, [f"value: {WEI}"]) for value in (
            -1, 1.0, 2**256, True, "", "1.0", "1e18", " 1", "0x", "1_000", str(2**256), "٣", [1],
        )),
        ({"value": 1e21, "gas_price": 1e18}, [f"value: {EXPONENT}", f"gas_price: {EXPONENT}"]),
        *(({"gas_limit": value}, [f"gas_limit: {GAS}"]) for value in (-1, 2**63)),
        ({"gas_price": "x", "speed": "slow"}, [
            f"gas_price: {WEI}", "speed: must be one of: safeLow, average, fast, fastest",
        ]),
        ({"to": "vitalik.eth"}, ["to: must be an EVM address: 0x and 40 hexadecimal digits"]),
        ({"to": RECEIVER.replace("C5", "c5")}, ["to: invalid checksum: a character of this address is mistyped"]),
        ({"to": ""}, ["to: an empty string is not allowed here"]),
        *(({"data": data}, [HEX]) for data in ("0x0", "0xzz", 5, "00\n")),
        ({"data": "00" * 131_073}, ["data: at most 131072 bytes are allowed"]),
        *(({"valid_until": value}, [TIME]) for value in (
            "2099-01-01", "2099-01-01T00:00:00", "2099-13-01T00:00:00Z", 4070908800, "0001-01-01T00:00:00+14:00",
            "2099-01-01T00:00:60Z", "2099-01-01T00:00:00+00:60",
        )),
        ({"valid_until": "2020-01-01T00:00:00Z"}, ["valid_until: must be in the future"]),
        ({"max_priority_fee_per_gas": 1}, ["max_fee_per_gas: required with max_priority_fee_per_gas"]),
        ({"max_fee_per_gas": 1, "max_priority_fee_per_gas": 2}, [
            "max_priority_fee_per_gas: must not be above max_fee_per_gas",
        ]),
        ({"gas_price": 1, "max_fee_per_gas": 2, "max_priority_fee_per_gas": 1}, [ONE_PRICE]),
        ({"speed": "fast", "max_fee_per_gas": 2}, [
            "max_priority_fee_per_gas: required with max_fee_per_gas", ONE_PRICE,
        ]),
        ({"to": None}, ["data: required to create a contract: send it, or the receiver as `to`"]),
        ({"external_id": "", "metadata": ["a"]}, [
            "external_id: an empty string is not allowed here", "metadata: an object is required",
        ]),
        *(({"external_id": text}, [CONTROL]) for text in ("a\x7f", "a\n")),
        ({"external_id": "a\0"}, [CONTROL, "external_id: Null characters are not allowed."]),
        ({"external_id": "x" * 256}, ["external_id: at most 255 characters are allowed"]),
        *(({"metadata": {key: "x"}}, [KEY]) for key in ("", "a:b", "a b", "ä", "a\0", "x" * 41)),
        *(({"metadata": {"key": value}}, [VALUE]) for value in (1, None, True, ["x"], "\0", "\x85", "x" * 501)),
        ({"metadata": {str(number): "x" for number in range(17)}}, ["metadata: at most 16 pairs are allowed"]),
        # The euro sign has three bytes.
        ({"metadata": {"a": "€" * 500, "b": "x" * 500, "c": "x" * 46}}, [
            "metadata: at most 2048 bytes of keys and values are allowed, in UTF-8",
        ]),
        ({"gas_limit": 20_999}, ["gas_limit: must be at least 21000, the minimum of this transaction on sepolia"]),
        ({"gas_limit": 2**24 + 1}, [
            "gas_limit: its gas limit is 16777217, above the maximum of 16777216 on sepolia",
        ]),
    ],
)  # fmt: skip
def test_a_transfer_with_a_fault_is_refused(sender: Api, change: dict[str, Any], faults: list[str]) -> None:
    factories.relayer()
    refused(sender, TRANSFER | change, *faults)


@pytest.mark.parametrize(
    ("policies", "change", "faults", "allowed"),
    [
        ({"whitelist_receivers": []}, {}, [f"{RECEIVERS} this receiver."], None),
        ({"whitelist_receivers": [OTHER]}, {}, [f"{RECEIVERS} this receiver."], {"to": OTHER.lower()}),
        ({"whitelist_receivers": [RECEIVER]}, {"to": None, "data": "00"}, [f"{RECEIVERS} creating contracts."], {}),
        ({"gas_price_cap": 10}, {"gas_price": 11}, [CAP], {"gas_price": 10}),
        ({"gas_price_cap": 10}, ABOVE, [CAP.replace("gas_price:", "max_fee_per_gas:")],
         {"max_fee_per_gas": 10, "max_priority_fee_per_gas": 10}),
        ({"eip1559_pricing": False}, ABOVE, [
            "max_fee_per_gas: the relayer's policy eip1559_pricing is false: send gas_price or speed",
        ], {"gas_price": 10}),
        ({"gas_limit_estimation": False}, {}, [
            "gas_limit: required: the relayer's policy gas_limit_estimation is false",
        ], {"gas_limit": 21_000}),
        ({"private_transactions": True, "gas_price_cap": 10}, {"gas_price": 11}, [
            CAP, "the relayer's policy private_transactions is true, and this network has no private nodes",
        ], None),
    ],
)  # fmt: skip
def test_the_policies_are_obeyed(
    sender: Api, policies: dict[str, Any], change: dict[str, Any], faults: list[str], allowed: dict[str, Any] | None
) -> None:
    factories.relayer(policies=policies)
    refused(sender, TRANSFER | change, *faults)
    if allowed is not None:
        assert sender.post(PATH, TRANSFER | allowed).status == 200


def test_rules_of_ethereum_do_not_hold_everywhere(sender: Api) -> None:
    relayer = factories.relayer(network="metis")
    fees = {"max_fee_per_gas": 2, "max_priority_fee_per_gas": 1}
    refused(sender, TRANSFER | fees, "max_fee_per_gas: metis has no maximum fees: send gas_price or speed")
    relayer.network = next(name for name, network in networks().items() if network.kind == "zksync")
    relayer.save()
    # Its gas is not measured as on Ethereum, and has no minimum.
    assert sender.post(PATH, {**TRANSFER, "gas_limit": 1}).status == 200


def test_a_signer_that_cannot_sign_for_ethereum_is_refused(sender: Api) -> None:
    vault = Signer(identifier="vault", type="provider_c_transit")
    vault.set_config({"address": "https://vault", "key_name": "k", "pubkey": "p", "role_id": "r", "secret_id": "s"})
    vault.save()
    factories.relayer(signer=vault)
    answer = sender.post(PATH, TRANSFER)
    (entry,) = answer.body["metadata"]["logs"]
    assert answer.status == 400
    assert entry["message"].endswith("it signs messages only and cannot be used by an evm relayer.")
    assert not Transaction.objects.exists()


@pytest.mark.parametrize("key", ["a,b", "x" * 256])
def test_an_unusable_idempotency_key_is_refused(sender: Api, key: str) -> None:
    factories.relayer()
    answer = sender.post(PATH, TRANSFER, headers={"Idempotency-Key": key})
    fault = "Idempotency-Key: one key of 1 to 255 visible ASCII characters without commas is required"
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    assert not Transaction.objects.exists()


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ([], ["an object is required"]),
        ({}, ["value: this field is required"]),
        ({**TRANSFER, "data": "ff00", "gas_limit": 21_019}, [f"gas_limit: must be at least 21050, {GAS_LIMITS}"]),
        ({**CREATION, "gas_limit": 53_005}, [f"gas_limit: must be at least 53006, {GAS_LIMITS}"]),
        ({**CREATION, "data": "00" * 49_153, "gas_limit": 2**24 + 1}, [
            "gas_limit: its gas limit is 16777217, above the maximum of 16777216 on sepolia",
            "data: its creation code size is 49153, above the maximum of 49152 on sepolia",
        ]),
    ],
)  # fmt: skip
def test_a_body_with_a_fault_is_refused(sender: Api, body: Any, faults: list[str]) -> None:
    factories.relayer()
    refused(sender, body, *faults)
