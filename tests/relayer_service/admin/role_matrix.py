"""Who may do what in the admin: the table that `test_role_matrix.py` proves, and that `docs/roles.md` shows.

A page or action that is not in the table fails the test. To add one, add a line to `ROWS`: the page, the action as the
docs name it, the least role, and its keys. A key is the name of an admin URL, for reading and for posting; "GET name"
or "POST name" for one of them; "name:action" for an action of a list.

    python -m tests.relayer_service.admin.role_matrix            whether docs/roles.md is what the table says
    python -m tests.relayer_service.admin.role_matrix --write    write it anew
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.servers import PROJECT

DOCUMENT = PROJECT / "docs" / "roles.md"
START, END = "<!-- matrix: tests/relayer_service/admin/role_matrix.py -->\n", "<!-- end of the matrix -->\n"

# Each may do what those before it may.
ANONYMOUS, USER, STAFF = "anonymous", "user", "staff"
VIEWER, OPERATOR, MANAGER, OWNER, SUPERUSER = "Viewer", "Operator", "Manager", "Owner", "superuser"
NOBODY = "nobody"
LEVELS = [ANONYMOUS, USER, STAFF, VIEWER, OPERATOR, MANAGER, OWNER, SUPERUSER, NOBODY]
SHOWN = [VIEWER, OPERATOR, MANAGER, OWNER, SUPERUSER]


class Row(NamedTuple):
    page: str
    action: str
    least: str
    keys: list[str]


def resource(page: str, name: str, view: str, *, add: str, change: str, delete: str) -> list[Row]:
    """Return the rows of Django's own pages of a model."""
    viewed = [f"GET {name}_changelist", f"POST {name}_changelist", f"GET {name}_change", f"{name}_history"]
    return [
        Row(page, "see", view, viewed),
        Row(page, "add", add, [f"{name}_add"]),
        Row(page, "change", change, [f"POST {name}_change"]),
        Row(page, "delete", delete, [f"{name}_delete", f"{name}_changelist:delete_selected"]),
    ]


def log(page: str, name: str) -> list[Row]:
    return resource(page, name, VIEWER, add=NOBODY, change=NOBODY, delete=NOBODY)


def configured(page: str, name: str) -> list[Row]:
    return resource(page, name, VIEWER, add=MANAGER, change=MANAGER, delete=MANAGER)


RELAYER, LANE, TRANSACTION = "relayers_relayer", "transactions_lane", "transactions_transaction"
WEBHOOK, DELIVERY = "notifications_notification", "notifications_delivery"
SIGNER, FEE_TOKEN, TOKEN = "signers_signer", "rpc_feetoken", "tokens_accesstoken"
USERS, GROUPS, JOB = "auth_user", "auth_group", "relayer_service_job"
ENTRY, NODES = "relayer_service_auditentry", "relayers_relayer_nodes"
PERIODIC_RUN = "relayer_service_periodicrun"
INCIDENT, ALERT_ROUTE = "incidents_incident", "incidents_alertroute"
LISTS = [
    *(RELAYER, LANE, TRANSACTION, WEBHOOK, DELIVERY, SIGNER, FEE_TOKEN, TOKEN, JOB, ENTRY, PERIODIC_RUN),
    *(INCIDENT, ALERT_ROUTE),
]

ROWS = [
    Row("Console", "overview, search, own password", STAFF, ["index", "search", "jsi18n"]),
    Row("Console", "overview, search, own password", STAFF, ["password_change", "password_change_done"]),
    Row("Console", "own second factor", STAFF, ["GET second_factor", "second_factor_set_up"]),
    Row("Console", "own time zone and sessions", STAFF, ["account"]),
    Row("Console", "turn off a second factor that is not there", NOBODY, ["POST second_factor"]),
    Row("Console", "lists of an app, choices of a form", VIEWER, ["app_list", "autocomplete"]),
    Row("Console", "save filters of lists, choose columns", VIEWER, [f"{name}_preferences" for name in LISTS]),
    Row("Console", "acknowledge a problem", OPERATOR, ["acknowledge", "undo_acknowledgement"]),
    Row("Console", "open a first step that adds something", MANAGER, ["getting_started_step"]),
    Row("Console", "hide the first steps", STAFF, ["getting_started_dismiss"]),
    Row("Console", "set up the local demo", MANAGER, ["getting_started_demo"]),
    *configured("Relayers", RELAYER),
    Row("Relayers", "see", VIEWER, [f"{RELAYER}_status", f"{RELAYER}_strip", f"{RELAYER}_deliveries"]),
    Row("Relayers", "try an estimate or a transaction, without sending", VIEWER, [f"{RELAYER}_estimate"]),
    Row("Relayers", "try an estimate or a transaction, without sending", VIEWER, [f"{RELAYER}_allowed"]),
    Row("Relayers", "try an estimate or a transaction, without sending", VIEWER, [f"{RELAYER}_try_it"]),
    Row("Relayers", "send a transaction", MANAGER, [f"{RELAYER}_send", f"{RELAYER}_send_transaction"]),
    Row("Relayers", "sweep", MANAGER, [f"{RELAYER}_sweep"]),
    Row("Relayers", "change", MANAGER, [f"{RELAYER}_changelist:edit_selected"]),
    Row("Relayers", "pause and resume", OPERATOR, [f"{RELAYER}_pause", f"{RELAYER}_resume"]),
    Row("Relayers", "pause and resume", OPERATOR, [f"{RELAYER}_changelist:pause_selected"]),
    Row("Relayers", "pause and resume", OPERATOR, [f"{RELAYER}_changelist:resume_selected"]),
    Row("Relayers", "check now", OPERATOR, [f"{RELAYER}_check", f"{RELAYER}_changelist:check_selected_now"]),
    Row("Networks and nodes", "see", VIEWER, [NODES]),
    Row("Networks and nodes", "check now", OPERATOR, [f"{NODES}_check"]),
    Row("Networks and nodes", "take out, put back", OPERATOR, [f"{NODES}_take_out", f"{NODES}_put_back"]),
    *log("Transactions", TRANSACTION),
    Row("Transactions", "see", VIEWER, [f"{TRANSACTION}_progress"]),
    Row("Transactions", "export CSV, gas report", VIEWER, [f"{TRANSACTION}_export", f"{TRANSACTION}_gas"]),
    Row("Transactions", "cancel", OPERATOR, [f"{TRANSACTION}_cancel", f"{TRANSACTION}_changelist:cancel_selected"]),
    Row("Transactions", "speed up", OPERATOR, [f"{TRANSACTION}_speed_up"]),
    Row("Transactions", "speed up", OPERATOR, [f"{TRANSACTION}_changelist:speed_up_selected"]),
    Row("Transactions", "resend", OPERATOR, [f"{TRANSACTION}_resend", f"{TRANSACTION}_changelist:resend_selected"]),
    Row("Transactions", "decide about a repeated request", OPERATOR, [f"{TRANSACTION}_link_found"]),
    Row("Transactions", "decide about a repeated request", OPERATOR, [f"{TRANSACTION}_send_anyway"]),
    *log("Lanes", LANE),
    Row("Lanes", "see", VIEWER, [f"{LANE}_strip"]),
    Row("Lanes", "hold and release", OPERATOR, [f"{LANE}_hold", f"{LANE}_release"]),
    Row("Lanes", "hold and release", OPERATOR, [f"{LANE}_changelist:hold_selected"]),
    Row("Lanes", "hold and release", OPERATOR, [f"{LANE}_changelist:release_selected"]),
    Row("Lanes", "fill a hole, resend all", OPERATOR, [f"{LANE}_fill_hole", f"{LANE}_resend_all"]),
    *configured("Fee tokens", FEE_TOKEN),
    Row("Fee tokens", "read prices now", OPERATOR, [f"{FEE_TOKEN}_read"]),
    Row("Fee tokens", "read prices now", OPERATOR, [f"{FEE_TOKEN}_changelist:read_selected_prices"]),
    *configured("Signers", SIGNER),
    Row("Signers", "verify", MANAGER, [f"{SIGNER}_changelist:verify_selected", f"{SIGNER}_verify"]),
    *configured("Webhooks", WEBHOOK),
    Row("Webhooks", "see", VIEWER, [f"{WEBHOOK}_facts"]),
    Row("Webhooks", "send a test event", OPERATOR, [f"{WEBHOOK}_send_test_event"]),
    Row("Webhooks", "send a test event", OPERATOR, [f"{WEBHOOK}_changelist:send_test_event_to_selected"]),
    Row("Webhooks", "retry all, replay since a time", OPERATOR, [f"{WEBHOOK}_retry_all", f"{WEBHOOK}_replay_since"]),
    Row("Webhooks", "disable and enable", MANAGER, [f"{WEBHOOK}_disable", f"{WEBHOOK}_enable"]),
    Row("Webhooks", "generate a key, end the previous one", MANAGER, [f"{WEBHOOK}_generate_key"]),
    Row("Webhooks", "generate a key, end the previous one", MANAGER, [f"{WEBHOOK}_end_previous_key"]),
    *log("Deliveries", DELIVERY),
    Row("Deliveries", "replay", OPERATOR, [f"{DELIVERY}_replay", f"{DELIVERY}_changelist:replay_selected"]),
    Row("Deliveries", "retry now", OPERATOR, [f"{DELIVERY}_retry_now", f"{DELIVERY}_changelist:retry_selected_now"]),
    *configured("Access tokens", TOKEN),
    Row("Access tokens", "see", VIEWER, [f"{TOKEN}_relayers", f"{TOKEN}_leaked"]),
    Row("Access tokens", "pause what one reaches", OPERATOR, [f"{TOKEN}_pause_reached"]),
    Row("Access tokens", "cancel what one requested", OPERATOR, [f"{TOKEN}_cancel_pending"]),
    Row("Access tokens", "revoke", OPERATOR, [f"{TOKEN}_changelist:disable", f"{TOKEN}_revoke"]),
    Row("Access tokens", "rotate, set scopes", SUPERUSER, [f"{TOKEN}_rotate", f"{TOKEN}_reissue"]),
    *resource("Users", USERS, OWNER, add=OWNER, change=OWNER, delete=OWNER),
    Row("Users", "set a password", OWNER, [f"{USERS}_password_change"]),
    Row("Users", "invite", OWNER, [f"{USERS}_invite"]),
    Row("Users", "end sessions", OWNER, [f"{USERS}_sessions"]),
    Row("Users", "reset a second factor", SUPERUSER, [f"{USERS}_reset_second_factor"]),
    *resource("Groups", GROUPS, OWNER, add=SUPERUSER, change=SUPERUSER, delete=SUPERUSER),
    *log("Incidents", INCIDENT),
    Row("Incidents", "see", VIEWER, [f"{INCIDENT}_runbooks"]),
    *configured("Alert routes", ALERT_ROUTE),
    Row("Alert routes", "see", VIEWER, [f"{ALERT_ROUTE}_alerts"]),
    Row("Alert routes", "send a test alert", MANAGER, [f"{ALERT_ROUTE}_send_test"]),
    *log("Audit log", ENTRY),
    Row("Audit log", "export CSV", VIEWER, [f"{ENTRY}_export"]),
    Row("Audit log", "undo an edit of relayers", MANAGER, [f"{ENTRY}_undo"]),
    *log("Jobs", JOB),
    Row("Jobs", "see", VIEWER, [f"{JOB}_progress"]),
    Row("Jobs", "undo an edit of relayers", MANAGER, [f"{JOB}_undo"]),
    Row("Jobs", "stop one that pauses or checks relayers, or sends", OPERATOR, [f"{JOB}_stop"]),
    *log("Periodic work", PERIODIC_RUN),
]
# Admin URLs that the test does not open, and why.
NOT_OPENED = {
    "login": "open to all",
    "logout": "ends a session, of whoever has one",
    "invitation": "open to all who have its link",
    "second_factor_code": "only between the password and the code",
    "view_on_site": "no object has a page on the site",
}


def expected() -> dict[str, str]:
    """Return the least role by key, with the method for each URL."""
    found: dict[str, str] = {}
    for row in ROWS:
        for key in row.keys:
            methods = [key] if " " in key or ":" in key else [f"GET {key}", f"POST {key}"]
            assert not found.keys() & set(methods), f"{key} has two lines in ROWS"
            found |= dict.fromkeys(methods, row.least)
    return found


def matrix() -> Iterator[str]:
    """Yield a row per page: in each column, what its role may do besides those before it."""
    yield f"| page | {' | '.join(SHOWN)} |"
    yield "|---|" + "---|" * len(SHOWN)
    least = {(row.page, row.action): row.least for row in ROWS if row.least != NOBODY}
    for page in dict.fromkeys(page for page, _ in least):
        cells: dict[str, list[str]] = {role: [] for role in SHOWN}
        for (of_page, action), role in least.items():
            if of_page == page:
                cells[SHOWN[0] if LEVELS.index(role) < LEVELS.index(SHOWN[0]) else role].append(action)
        yield f"| {page} | {' | '.join('; '.join(actions) for actions in cells.values())} |"


def document() -> str:
    """Return the document with the matrix of the table."""
    before, _, rest = DOCUMENT.read_text().partition(START)
    return f"{before}{START}\n{chr(10).join(matrix())}\n\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> int:
    if "--write" in arguments:
        DOCUMENT.write_text(document())
    if document() == DOCUMENT.read_text():
        return 0
    print("docs/roles.md is not what the table says: run `python -m tests.relayer_service.admin.role_matrix --write`")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
