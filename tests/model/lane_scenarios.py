"""The scenarios of the lane model: lost commits, other senders, reorgs and replaced chains."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tests.model.lanes import LaneModel
from tests.model.search import Scenario

LOSS = {"snapshot": 1, "failover": 1}
LOSS_RULES = ("any_lane", "owner_first", "in_order", "seal", "reasons", "claims", "held_bumps")
CLOSING_RULES = (*LOSS_RULES, "guard_close", "requeue_closes")
ALL_LOSS_RULES = (*CLOSING_RULES, "commit_checks", "wide_seal")


def lane(what: str, payloads: str, rules: Collection[str], *, remains: str = "", **options: Any) -> Scenario:
    def build(some: Collection[str]) -> LaneModel:
        return LaneModel(payloads=payloads, rules=some, **options)

    return Scenario(what, build, tuple(rules), remains=frozenset(remains.split()))


LANE_SCENARIOS = {
    "plain": lane(
        "no faults but reorg, stale nodes, base fee, cancel; three requests",
        "PPQ",
        (),
        budgets={"reorg": 1, "stale": 1, "basefee": 1, "cancel": 1},
    ),
    "lease": lane(
        "two workers, takeover, crash, cancel, external; identical requests",
        "PP",
        ["requeue_closes"],
        workers=2,
        split=True,
        budgets={"crash": 1, "cancel": 1, "external": 1},
    ),
    "lease2": lane(
        "two workers, takeover, crash, cancel, reorg, stale nodes; one request",
        "P",
        ["requeue_closes"],
        workers=2,
        split=True,
        budgets={"crash": 2, "cancel": 1, "reorg": 2, "external": 1, "basefee": 1, "stale": 1},
    ),
    "external": lane(
        "an external sender (also with an identical payload), cancel, reorg, base fee",
        "PP",
        ["owner_first", "requeue_closes"],
        external_payloads="XP",
        budgets={"external": 1, "cancel": 1, "reorg": 1, "basefee": 1, "stale": 1},
    ),
    "early": lane(
        "reading: external already at `latest`",
        "PQ",
        ["early_external"],
        remains="I4",
        budgets={"external": 1, "reorg": 1},
    ),
    "held": lane(
        "an external transaction waits in the mempool, base fee rises",
        "PQ",
        ["held_bumps"],
        budgets={"extpool": 1, "basefee": 1, "reorg": 1},
    ),
    "loss1": lane("detected failover, one request", "P", LOSS_RULES, budgets=LOSS | {"basefee": 1, "stale": 1}),
    "loss2": lane("detected failover, two identical requests", "PP", LOSS_RULES, budgets=LOSS | {"basefee": 1}),
    "loss3": lane("detected failover, different requests", "PQ", LOSS_RULES, budgets=LOSS | {"basefee": 1}),
    "loss4": lane("detected failover, three requests, two identical", "PPQ", LOSS_RULES, budgets=LOSS),
    "losscancel": lane("detected failover and a cancel", "PQ", CLOSING_RULES, budgets=LOSS | {"cancel": 1}),
    "lossexternal": lane("detected failover and an external sender", "PP", LOSS_RULES, budgets=LOSS | {"external": 1}),
    "losssplit": lane(
        "failover between plan and commit, two workers",
        "PQ",
        (*LOSS_RULES, "commit_checks"),
        split=True,
        workers=2,
        budgets=LOSS,
    ),
    "losstwice": lane(
        "two failovers, the second loses the recovery", "PP", LOSS_RULES, budgets={"snapshot": 2, "failover": 2}
    ),
    "lossreorg": lane("failover and reorg together", "PPQ", (*LOSS_RULES, "wide_seal"), budgets=LOSS | {"reorg": 1}),
    "losssigned": lane(
        "the same; reading: the seal ends at the highest nonce that was signed",
        "PPQ",
        (*LOSS_RULES, "signed_seal"),
        budgets=LOSS | {"reorg": 1},
    ),
    "lossreported": lane(
        "detected failover; reading: the seal ends at what mempools or a witness report",
        "PQ",
        (*LOSS_RULES, "reported_seal"),
        remains="I1",
        budgets=LOSS,
    ),
    "lossall": lane(
        "failover, cancel, external sender, reorg, one request",
        "P",
        ALL_LOSS_RULES,
        split=True,
        budgets=LOSS | {"cancel": 1, "external": 1, "reorg": 1},
    ),
    "lossall2": lane(
        "the same, two identical requests, no crash between plan and commit",
        "PP",
        ALL_LOSS_RULES,
        budgets=LOSS | {"cancel": 1, "external": 1, "reorg": 1},
    ),
    "first": lane(
        "the commit of the first contact is lost too",
        "P",
        LOSS_RULES,
        remains="I1",
        first_contact=True,
        budgets=LOSS,
    ),
    "undetected1": lane(
        "restore that no timeline shows (SQLite copy, pg_dump), one request",
        "P",
        LOSS_RULES,
        detected=False,
        budgets=LOSS,
    ),
    "undetected": lane("the same with two requests", "PQ", LOSS_RULES, remains="I1", detected=False, budgets=LOSS),
    "depths": lane(
        "reorg deeper than `confirmations`, above finality; cancel",
        "P",
        ["final_depth"],
        two_depths=True,
        budgets={"midreorg": 1, "cancel": 1, "reorg": 1},
    ),
    "depths2": lane(
        "the same with an external sender",
        "P",
        ["final_depth"],
        remains="I2",
        two_depths=True,
        budgets={"midreorg": 1, "external": 1},
    ),
    "devchain": lane(
        "development node restarted, automatic release", "PQ", ["epoch"], dev_restart=True, budgets={"replace": 1}
    ),
    "devreplay": lane(
        "the same; reading: released rows are not rebroadcast, no epoch",
        "PQ",
        ["no_replay"],
        remains="I4",
        dev_restart=True,
        budgets={"replace": 1},
    ),
    "devsplit": lane(
        "the same, a worker is between plan and commit",
        "PPQ",
        ["epoch", "commit_checks"],
        remains="I2",
        dev_restart=True,
        split=True,
        budgets={"replace": 1},
    ),
    "deep": lane(
        "public chain, reorg deeper than finality, cancel",
        "PQ",
        ["keep_open"],
        remains="I2",
        budgets={"replace": 1, "cancel": 1},
    ),
    "deepexternal": lane(
        "the same after an external sender",
        "P",
        ["keep_open"],
        remains="I1",
        budgets={"replace": 1, "external": 1},
    ),
}
