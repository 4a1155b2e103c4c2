"""How fast transactions are accepted, beside the creation of a signer, and with spending rules beside without."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, cycle

from benchmarks import load
from benchmarks.databases import Bench, Database
from benchmarks.load import Load, Message, Request
from benchmarks.report import Row, medians
from benchmarks.resources import SIGNERS
from benchmarks.sending.deployment import deployed
from benchmarks.sending.rows import RECEIVER, Senders, create_apart, limit_apart
from benchmarks.turns import in_turns

CALLERS = (1, 8, 32)
ROUNDS, FAST_ROUNDS = 7, 1
TURN_SECONDS, FAST_TURN_SECONDS = 1.0, 0.4
# So many that no queue is full within a turn.
RELAYERS = 32
BODY = f'{{"to": "{RECEIVER}", "value": 1, "speed": "fast"}}'
MIN_SHARE = 0.6
# Of the answer to an accepted transaction.
STATUS = 200
SIGNER, TRANSACTION = "signers/s", "transactions/s"
# Relayers with ten rules each, and the same number without.
LIMITED = 10
LIMITED_CALLERS = 8
MIN_LIMITED_SHARE = 0.9
ONE_LIMITED_CALLERS = 32
WITH_RULES, WITHOUT_RULES = "with rules/s", "without rules/s"
NODE = "http://127.0.0.1:9/"
# The newest row of each relayer stays, with its lane.
CLEAN_UP = [
    "DELETE FROM transactions_charge",
    "UPDATE spending_spendinglimit SET hours = '{{}}'",
    "DELETE FROM transactions_statuschange WHERE transaction_id > {kept}",
    "DELETE FROM transactions_transaction WHERE sequence > {kept}",
    SIGNERS.remove_new[0],
]


def rows(bench: Bench) -> list[Row]:
    seconds = FAST_TURN_SECONDS if bench.fast else TURN_SECONDS
    rounds = FAST_ROUNDS if bench.fast else ROUNDS
    with bench.postgresql() as database, deployed(database) as deployment:
        senders = create_apart(database, deployment.settings, NODE, RELAYERS, queued=1)
        clean_up = cleaner(database)
        found = []
        for callers in CALLERS:
            turns = {
                SIGNER: turn(deployment.port, signers(senders), seconds, callers, clean_up),
                TRANSACTION: turn(deployment.port, transactions(senders), seconds, callers, clean_up),
            }
            found.append(row(callers, in_turns(turns, rounds)))
        limit_apart(database, deployment.settings, LIMITED)
        return [*found, *limited_rows(deployment.port, senders, seconds, rounds, clean_up)]


def limited_rows(port: int, senders: Senders, seconds: float, rounds: int, clean_up: Callable[[], None]) -> list[Row]:
    """Compare relayers that have ten rules, two of them with limits that count here, with relayers that have none."""
    limited, free = transactions(senders, range(LIMITED)), transactions(senders, range(LIMITED, 2 * LIMITED))
    turns = {
        WITHOUT_RULES: turn(port, free, seconds, LIMITED_CALLERS, clean_up),
        WITH_RULES: turn(port, limited, seconds, LIMITED_CALLERS, clean_up),
    }
    rates = {name: [each.rate for each in loads] for name, loads in in_turns(turns, rounds).items()}
    rate = medians(rates)
    shared = Row(
        f"accept with ten rules on each of {LIMITED} relayers",
        round(rate[WITH_RULES] / rate[WITHOUT_RULES], 2),
        "x",
        "without rules",
        at_least=MIN_LIMITED_SHARE,
        beside=medians(rates, 0),
    )
    # All callers wait for one row: the limit is exact.
    turns = {
        WITHOUT_RULES: turn(port, transactions(senders, [LIMITED]), seconds / 2, ONE_LIMITED_CALLERS, clean_up),
        WITH_RULES: turn(port, transactions(senders, [0]), seconds / 2, ONE_LIMITED_CALLERS, clean_up),
    }
    one = {name: [each.rate for each in loads] for name, loads in in_turns(turns, rounds).items()}
    rate = medians(one)
    alone = Row(
        f"accept, {ONE_LIMITED_CALLERS} callers of one relayer with limits",
        round(rate[WITH_RULES] / rate[WITHOUT_RULES], 2),
        "x",
        "without rules",
        beside=medians(one, 0),
    )
    return [shared, alone]


def signers(senders: Senders) -> Callable[[], Iterator[Message]]:
    request = Request(SIGNERS.path, f"Bearer {senders.token}", "POST", SIGNERS.new, status=201)
    return lambda: (
        (request.encoded(f"{mark}-{number}"), request) for mark in [next(load.marks)] for number in count()
    )


def transactions(senders: Senders, chosen: Sequence[int] | None = None) -> Callable[[], Iterator[Message]]:
    """Return messages to all relayers in turn, or to those with these numbers."""
    requests = [
        Request(senders.path(number), f"Bearer {senders.token}", "POST", BODY, status=STATUS)
        for number in (range(len(senders.relayers)) if chosen is None else chosen)
    ]
    messages = [(request.encoded(), request) for request in requests]
    return lambda: cycle(messages)


def turn(
    port: int, messages: Callable[[], Iterator[Message]], seconds: float, callers: int, clean_up: Callable[[], None]
) -> Callable[[], Load]:
    def measure() -> Load:
        found = load.drive(port, load.until(messages(), seconds), callers)
        clean_up()
        return found

    return measure


def cleaner(database: Database) -> Callable[[], None]:
    with database.connect() as connection:
        (kept,) = connection.execute("SELECT max(sequence) FROM transactions_transaction").fetchone()

    def clean_up() -> None:
        with database.connect() as connection:
            for statement in CLEAN_UP:
                connection.execute(statement.format(kept=kept))
            connection.execute("VACUUM ANALYZE transactions_transaction")

    return clean_up


def row(callers: int, found: dict[str, list[Load]]) -> Row:
    rates = {name: [each.rate for each in loads] for name, loads in found.items()}
    rate = medians(rates)
    waits = {
        f"p{percent} ms": [each.percentile(percent) * 1000 for each in found[TRANSACTION]] for percent in (50, 99)
    }
    return Row(
        f"accept, {callers} callers" if callers > 1 else "accept, one caller",
        round(rate[TRANSACTION] / rate[SIGNER], 2),
        "x",
        "create a signer",
        at_least=MIN_SHARE,
        beside=medians(rates, 0) | medians(waits, 1),
    )
