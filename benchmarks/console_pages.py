"""The pages of the console that are measured: lists with their filters and orders, objects, searches and forms."""

from typing import Any

from benchmarks.fill_console import BUSY

RELAYERS = "/admin/relayers/relayer/"
SIGNERS = "/admin/signers/signer/"
NOTIFICATIONS = "/admin/notifications/notification/"
DELIVERIES = "/admin/notifications/delivery/"
AUDIT = "/admin/relayer_service/auditentry/"
TRANSACTIONS = "/admin/transactions/transaction/"
LANES = "/admin/transactions/lane/"
USERS = "/admin/auth/user/"
BUSY_RELAYER = f"{RELAYERS}{BUSY}/change/"
RANGES = {"24 hours": "24h", "7 days": "7d", "30 days": "30d"}
SEARCH = "/admin/search/?extended=1&s="
ADDRESS = "0xabcdefabcdefabcdefabcdefabcdefabc1000250"
WEBHOOK_ID = "msg_6c9882bbac1c7093bd25041881277658"
# In place of the number of a page: the last.
LAST = "p=last"
PAGES = {
    **{f"overview, {title}": f"/admin/?range={key}" for title, key in RANGES.items()},
    "getting started, a step": "/admin/getting-started/relayer/",
    "relayers": RELAYERS,
    "relayers, last page": f"{RELAYERS}?{LAST}",
    **{
        f"relayers, {state}": f"{RELAYERS}?state={state}".replace(" ", "+")
        for state in ("disabled", "low balance", "paused", "no address", "nodes failing", "unknown", "active")
    },
    "relayers, disabled, last page": f"{RELAYERS}?state=disabled&{LAST}",
    "relayers, of a network": f"{RELAYERS}?network=mainnet",
    "relayers, of an unused network": f"{RELAYERS}?network=base",
    "relayers, of two networks": f"{RELAYERS}?network=mainnet&network=my-chain",
    "relayers, of all networks": f"{RELAYERS}?network=mainnet&network=my-chain&network=sepolia",
    "relayers, of two networks, by name": f"{RELAYERS}?network=mainnet&network=my-chain&o=1",
    "relayers, of an outage": f"{RELAYERS}?network=sepolia&problem=no+node+answers",
    "relayers, of an outage, by name": f"{RELAYERS}?network=sepolia&problem=no+node+answers&o=1",
    "relayers, of two networks, low balance": f"{RELAYERS}?network=mainnet&network=my-chain&state=low+balance",
    "relayers, used up soon": f"{RELAYERS}?problem=balance+used+up+soon",
    "relayers, of a webhook": f"{RELAYERS}?notification__sequence__exact=1",
    "relayers, of a signer": f"{RELAYERS}?signer__sequence__exact=1",
    "relayers, by name": f"{RELAYERS}?o=1",
    "relayers, by name, last page": f"{RELAYERS}?o=1&{LAST}",
    "relayers, by name from the end": f"{RELAYERS}?o=-1",
    "relayers, by network": f"{RELAYERS}?o=4",
    "relayers, by address": f"{RELAYERS}?o=5",
    "relayers, by balance": f"{RELAYERS}?o=6",
    "relayers, by balance from the end": f"{RELAYERS}?o=-6",
    "relayers, by last check": f"{RELAYERS}?o=7",
    "relayers, by last check from the end": f"{RELAYERS}?o=-7",
    "relayers, by creation": f"{RELAYERS}?o=8",
    "relayers, disabled, by name": f"{RELAYERS}?state=disabled&o=1",
    "relayers, search by id": f"{RELAYERS}?q=relayer-1",
    "relayers, search by a short prefix": f"{RELAYERS}?q=rel",
    "relayers, search by name, two words": f"{RELAYERS}?q=Relayer+1",
    "relayers, search by a part of a name": f"{RELAYERS}?q=layer+25",
    "relayers, search by a part of a name, last page": f"{RELAYERS}?q=layer+25&{LAST}",
    "relayers, search by a part of an id": f"{RELAYERS}?q=r-50",
    "relayers, search by what all have": f"{RELAYERS}?q=layer",
    "relayers, search by a part of an address": f"{RELAYERS}?q={ADDRESS[20:]}",
    "relayers, search by a shortened address": f"{RELAYERS}?q={ADDRESS[:6]}…{ADDRESS[-6:]}",
    "relayers, search by network": f"{RELAYERS}?q=ainn",
    "relayers, search by two characters": f"{RELAYERS}?q=re",
    "relayers, search by address": f"{RELAYERS}?q={ADDRESS}",
    "relayers, search, disabled": f"{RELAYERS}?q=relayer-&state=disabled",
    "relayers, search, nothing found": f"{RELAYERS}?q=no+such+relayer",
    "networks and nodes": f"{RELAYERS}nodes/",
    "take out a node": f"{RELAYERS}nodes/0000000000000100/take_out/",
    **{f"a busy relayer, {title}": f"{BUSY_RELAYER}?range={key}" for title, key in RANGES.items()},
    "a relayer that is topped up": f"{RELAYERS}251/change/",
    "a new relayer": f"{RELAYERS}add/",
    "a relayer's history": f"{RELAYERS}{BUSY}/history/",
    "a relayer's lane": f"{RELAYERS}{BUSY}/strip/",
    "pause a relayer": f"{RELAYERS}{BUSY}/pause/",
    "try it": f"{RELAYERS}{BUSY}/try_it/",
    "sweep": f"{RELAYERS}{BUSY}/sweep/",
    "signers": SIGNERS,
    "signers, last page": f"{SIGNERS}?{LAST}",
    "signers, of a type": f"{SIGNERS}?type__exact=provider_d",
    "signers, of an unused type": f"{SIGNERS}?type__exact=provider_c",
    "signers, by id": f"{SIGNERS}?o=1",
    "signers, by type": f"{SIGNERS}?o=2",
    "signers, by address": f"{SIGNERS}?o=3",
    "signers, by verification from the end": f"{SIGNERS}?o=-4",
    "signers, search by id": f"{SIGNERS}?q=signer-1",
    "signers, search by address": f"{SIGNERS}?q={ADDRESS}",
    "signers, search, nothing found": f"{SIGNERS}?q=no+such+signer",
    "a signer of half the relayers": f"{SIGNERS}1/change/",
    "notifications": NOTIFICATIONS,
    "notifications, last page": f"{NOTIFICATIONS}?{LAST}",
    **{f"notifications, {state}": f"{NOTIFICATIONS}?state={state}" for state in ("failing", "gone", "disabled", "ok")},
    "notifications, by id": f"{NOTIFICATIONS}?o=1",
    "notifications, by URL": f"{NOTIFICATIONS}?o=2",
    "notifications, search by a part of a URL": f"{NOTIFICATIONS}?q=ks-12",
    "notifications, search by id": f"{NOTIFICATIONS}?q=target-1",
    "notifications, search by URL": f"{NOTIFICATIONS}?q=https://hooks-1",
    "notifications, search, nothing found": f"{NOTIFICATIONS}?q=no+such+target",
    "notifications, failing with an error": f"{NOTIFICATIONS}?state=failing&error=answered+with+504",
    **{
        f"a notification of a fifth of the deliveries, {title}": f"{NOTIFICATIONS}1/change/?range={key}"
        for title, key in RANGES.items()
    },
    "a failing notification": f"{NOTIFICATIONS}404/change/",
    "disable a notification": f"{NOTIFICATIONS}1/disable/",
    "deliveries": DELIVERIES,
    "deliveries, last page": f"{DELIVERIES}?{LAST}",
    **{f"deliveries, {state}": f"{DELIVERIES}?state__exact={state}" for state in ("failed", "pending", "delivered")},
    "deliveries, of an event": f"{DELIVERIES}?event=relayer.disabled",
    "deliveries, of an unused event": f"{DELIVERIES}?event=relayer.paused",
    "deliveries, of a relayer": f"{DELIVERIES}?relayer=relayer-250",
    "deliveries, of a notification": f"{DELIVERIES}?notification__sequence__exact=1",
    "deliveries, of a notification, failed": f"{DELIVERIES}?notification__sequence__exact=1&state__exact=failed",
    "deliveries, of some days": f"{DELIVERIES}?created_at_from={{day}}&created_at_to={{day}}",
    "deliveries, search": f"{DELIVERIES}?q={WEBHOOK_ID}",
    "deliveries, search, nothing found": f"{DELIVERIES}?q=msg_none",
    "a delivery": f"{DELIVERIES}250/change/",
    "transactions": TRANSACTIONS,
    "transactions, last page": f"{TRANSACTIONS}?{LAST}",
    **{
        f"transactions, {status}": f"{TRANSACTIONS}?status={status}"
        for status in ("pending", "submitted", "mined", "confirmed", "failed")
    },
    "transactions, of a network": f"{TRANSACTIONS}?network=mainnet",
    "transactions, of a relayer": f"{TRANSACTIONS}?relayer__sequence__exact={BUSY}",
    "transactions, of a relayer, failed": f"{TRANSACTIONS}?relayer__sequence__exact={BUSY}&status=failed",
    "transactions, search by id": f"{TRANSACTIONS}?q=transaction-25",
    "transactions, search by nonce": f"{TRANSACTIONS}?q=250",
    "transactions, search by receiver": f"{TRANSACTIONS}?q=0x70997970",
    "transactions, search by external ID": f"{TRANSACTIONS}?q=order-250",
    "transactions, search by idempotency key": f"{TRANSACTIONS}?q=key-250",
    "transactions, search by metadata": f"{TRANSACTIONS}?q=order:250",
    "transactions, search by metadata of many": f"{TRANSACTIONS}?q=shop:7",
    "transactions, of a token": f"{TRANSACTIONS}?token=token-7",
    "transactions, of yesterday": f"{TRANSACTIONS}?created=yesterday",
    "transactions, failed yesterday": f"{TRANSACTIONS}?finished=yesterday&status=failed",
    "transactions, of a relayer, failed yesterday": (
        f"{TRANSACTIONS}?relayer__sequence__exact={BUSY}&finished=yesterday&status=failed"
    ),
    "a transaction": f"{TRANSACTIONS}250/change/",
    "lanes": LANES,
    "lanes, held": f"{LANES}?state=held",
    "lanes, waiting": f"{LANES}?state=waiting",
    "a lane": f"{LANES}{BUSY}/change/",
    "fee tokens": "/admin/rpc/feetoken/",
    "access tokens": "/admin/tokens/accesstoken/",
    "jobs": "/admin/relayer_service/job/",
    "periodic work": "/admin/relayer_service/periodicrun/",
    "users": USERS,
    "users, of a role": f"{USERS}?role=Viewer",
    "a user with a role": f"{USERS}1001/change/",
    "a new user": f"{USERS}add/",
    "a role": "/admin/auth/group/1/change/",
    "second factor": "/admin/second-factor/",
    "second factor, set up": "/admin/login/set-up/",
    "incidents": "/admin/incidents/incident/",
    "alert routes": "/admin/incidents/alertroute/",
    "audit log": AUDIT,
    "audit log, last page": f"{AUDIT}?{LAST}",
    "audit log, of a type": f"{AUDIT}?object_type=relayer",
    "audit log, search": f"{AUDIT}?q=relayer-250",
    "audit log, search, nothing found": f"{AUDIT}?q=nobody",
    "all, search by id": f"{SEARCH}relayer-1",
    "all, search by a short prefix": f"{SEARCH}r",
    "all, search by address": f"{SEARCH}{ADDRESS}",
    "all, search by webhook-id": f"{SEARCH}{WEBHOOK_ID}",
    "all, search, nothing found": f"{SEARCH}no+such+thing",
}
# Pages of forms that are sent, with the number of relayers.
CHOSEN = {"action": "edit_selected", "_selected_action": "1"}
CHANGES = {"confirmed": "1x{rows}", "minimum_change": "set", "minimum": "5", "webhook_change": "clear", "reason": "-"}
FORMS: dict[str, dict[str, Any]] = {
    "edit two relayers": {"action": "edit_selected", "_selected_action": ["1", "2"]},
    "edit all relayers": {**CHOSEN, "select_across": "1"},
    "edit all relayers, preview": CHOSEN | CHANGES,
    "pause all relayers": {**CHOSEN, "action": "pause_selected", "select_across": "1"},
}
PAGES |= dict.fromkeys(FORMS, RELAYERS)
