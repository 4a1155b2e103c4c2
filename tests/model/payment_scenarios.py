"""The scenarios of the payment model: the gate, expiry, replacements, spending windows and lying nodes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tests.model.payment_nodes import HONEST, LIAR, SILENT
from tests.model.payments import PaymentModel
from tests.model.search import Scenario

NODE_RULES = ("gate", "proof", "agreement", "comparison", "believed_heads")
SPENDING_RULES = ("gate", "open_counts", "dated_when_mined", "release_needs_agreement")
LYING_SPENDING_RULES = (*NODE_RULES, "open_counts", "dated_when_mined", "release_needs_agreement")
# With the operator of the only node trusted for statuses.
MONEY_ONLY = "I1 I4 I6 I7"
ONE_A_WINDOW: dict[str, Any] = {"requests": 2, "limit": 1, "ticks": 3}


def payments(
    what: str, rules: Collection[str], *, proposed: Collection[str] = (), remains: str = "", **options: Any
) -> Scenario:
    def build(some: Collection[str]) -> PaymentModel:
        return PaymentModel(rules=some, **options)

    return Scenario(what, build, tuple(rules), tuple(proposed), frozenset(remains.split()))


PAYMENT_SCENARIOS = {
    "gate": payments(
        "cancel, replacement and expiry between commit and broadcast; a reorg",
        ["gate"],
        requests=2,
        budgets={"cancel": 1, "replace": 1, "expire": 1, "reorg": 1},
    ),
    "gateexternal": payments(
        "the same with an external sender, who makes rows get a second nonce; one request",
        ["gate", "proof"],
        requests=1,
        budgets={"cancel": 1, "replace": 1, "expire": 1, "reorg": 1, "external": 1, "deposit": 1},
    ),
    "window": payments(
        "a spending limit, cancel, expiry",
        SPENDING_RULES[:3],
        budgets={"cancel": 1, "expire": 1},
        **ONE_A_WINDOW,
    ),
    "windowreorg": payments(
        "a spending limit and a reorg: mined in one window, mined again in another",
        SPENDING_RULES[:3],
        proposed=["dated_when_final"],
        budgets={"reorg": 1, "cancel": 1},
        **ONE_A_WINDOW,
    ),
    "windowreplace": payments(
        "a spending limit and a replacement of a smaller value",
        SPENDING_RULES[:3],
        proposed=["dated_when_final"],
        requests=2,
        limit=2,
        ticks=3,
        values={"A": 2, "a": 1},
        budgets={"replace": 1, "cancel": 1, "reorg": 1},
    ),
    "beside": payments(
        "a liar beside an honest node: invented and real foreign transactions, hidden receipts, swapped attempts",
        NODE_RULES[:4],
        nodes=(HONEST, LIAR),
        lies=("hide", "foreign", "signed_foreign", "swap"),
        requests=1,
        budgets={"cancel": 1, "replace": 1, "external": 1, "reorg": 1},
    ),
    "besideearly": payments(
        "a liar beside an honest node: claims that a no-op is mined while the nonce is unused",
        NODE_RULES[:4],
        proposed=["missing_contradicts"],
        nodes=(HONEST, LIAR),
        lies=("early",),
        requests=2,
        budgets={"cancel": 1, "reorg": 1},
    ),
    "besidetwo": payments(
        "the same, two requests, one cancel",
        NODE_RULES[:4],
        nodes=(HONEST, LIAR),
        lies=("hide", "foreign", "signed_foreign", "swap"),
        requests=2,
        budgets={"cancel": 1, "external": 1},
    ),
    "besidehead": payments(
        "a head that is too high beside an honest node, an external sender, a reorg, a cancel",
        NODE_RULES,
        nodes=(HONEST, LIAR),
        lies=("head", "foreign"),
        requests=1,
        budgets={"cancel": 1, "external": 1, "reorg": 1},
    ),
    "besidesilent": payments(
        "a liar beside an honest node that may be silent or behind: statuses can be wrong, money cannot",
        NODE_RULES[:4],
        nodes=(SILENT, LIAR),
        lies=("hide", "foreign", "signed_foreign", "swap"),
        requests=1,
        judged=MONEY_ONLY,
        budgets={"cancel": 1, "replace": 1, "external": 1, "reorg": 1},
    ),
    "besidelimit": payments(
        "a spending limit, a liar beside an honest node that may be silent: hidden receipts, swapped attempts",
        LYING_SPENDING_RULES,
        nodes=(SILENT, LIAR),
        lies=("hide", "swap", "head"),
        judged=MONEY_ONLY,
        budgets={"cancel": 1},
        **ONE_A_WINDOW,
    ),
    "besidelimithead": payments(
        "a spending limit, a head that is too high beside an honest node, a reorg",
        LYING_SPENDING_RULES,
        proposed=["dated_when_final"],
        nodes=(SILENT, LIAR),
        lies=("head", "hide"),
        judged=MONEY_ONLY,
        budgets={"cancel": 1, "reorg": 1},
        **ONE_A_WINDOW,
    ),
    "besidelimitreplace": payments(
        "the same with a replacement of a smaller value",
        LYING_SPENDING_RULES,
        nodes=(SILENT, LIAR),
        lies=("hide", "swap"),
        judged=MONEY_ONLY,
        requests=2,
        limit=2,
        ticks=3,
        values={"A": 2, "a": 1},
        budgets={"replace": 1},
    ),
    "besidelimitearly": payments(
        "a spending limit, a liar beside an honest node: claims that a payload is mined while it waits",
        LYING_SPENDING_RULES,
        proposed=["dated_when_final", "dating_needs_agreement"],
        nodes=(SILENT, LIAR),
        lies=("early",),
        judged=MONEY_ONLY,
        budgets={"cancel": 1},
        **ONE_A_WINDOW,
    ),
    "alone": payments(
        "the liar alone: invented foreign transactions, hidden receipts, swapped attempts",
        ["gate", "proof"],
        nodes=(LIAR,),
        lies=("hide", "foreign", "swap", "early"),
        requests=1,
        judged=MONEY_ONLY,
        budgets={"cancel": 1, "replace": 1, "external": 1, "reorg": 1},
    ),
    "alonehead": payments(
        "the liar alone: a head that is too high, an external sender, a reorg",
        ["gate", "proof", "believed_heads"],
        nodes=(LIAR,),
        lies=("head", "hide", "foreign"),
        requests=1,
        judged=MONEY_ONLY,
        budgets={"cancel": 1, "external": 1, "reorg": 1},
    ),
    "alonesigned": payments(
        "the liar alone has a real signature of another holder of the key that was never mined",
        ["gate", "proof"],
        nodes=(LIAR,),
        lies=("signed_foreign",),
        requests=1,
        judged=MONEY_ONLY,
        remains="I1 I4",
        budgets={},
    ),
    "alonelimit": payments(
        "a spending limit and the liar alone: hidden receipts, swapped attempts",
        ("gate", "proof", "believed_heads", *SPENDING_RULES[1:3], "single_node_keeps"),
        nodes=(LIAR,),
        lies=("hide", "swap", "foreign"),
        judged=MONEY_ONLY,
        budgets={"cancel": 1},
        **ONE_A_WINDOW,
    ),
    "alonelimitreplace": payments(
        "the same with a replacement of a smaller value",
        ("gate", "proof", "believed_heads", *SPENDING_RULES[1:3], "single_node_keeps"),
        nodes=(LIAR,),
        lies=("hide", "swap"),
        judged=MONEY_ONLY,
        requests=2,
        limit=2,
        ticks=3,
        values={"A": 2, "a": 1},
        budgets={"replace": 1},
    ),
    "alonelimitearly": payments(
        "a spending limit and the liar alone: claims that a payload is mined, and withholds it until the next window",
        ("gate", "proof", "believed_heads", *SPENDING_RULES[1:3], "single_node_keeps"),
        proposed=["dated_when_final"],
        nodes=(LIAR,),
        lies=("early",),
        judged=MONEY_ONLY,
        remains="I7",
        budgets={"cancel": 1},
        **ONE_A_WINDOW,
    ),
}
