"""The last step: a first transaction."""

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.getting_started import DEMO, FIRST_ROWS, Demo, Step
from relayer_service.api.idempotency import body_digest
from relayer_service.audit.recording import acted, record
from relayer_service.extensions import is_enabled
from relayers.models import Relayer
from transactions.accepting import Request, accept
from transactions.models import Status, Transaction

# A sample that costs only its gas.
VALUE = 0
FIRST = Transaction.objects.order_by("sequence")


def first_transaction(request: HttpRequest) -> Step | None:
    if not is_enabled("transactions"):
        return None
    # Among the first rows: there may be a million others.
    first = FIRST.values("pk")[: FIRST_ROWS + 1]
    return Step(
        "transaction",
        "Send a transaction",
        "Done once one is confirmed.",
        ["relayers.view_relayer", "transactions.view_transaction", "transactions.add_transaction"],
        Transaction.objects.filter(pk__in=first, status=Status.CONFIRMED),
        try_page,
        set_up,
        in_use=FIRST[FIRST_ROWS : FIRST_ROWS + 1],
    )


def try_page() -> str:
    """Return the page of the newest relayer on which a sample is filled in."""
    newest = Relayer.objects.order_by("-sequence").values_list("pk", flat=True).first()
    return reverse("admin:relayers_relayer_try_it", args=[newest]) if newest else ""


def set_up(demo: Demo) -> None:
    relayer, by = demo.rows["Relayer"], demo.user.get_username()
    values = {"to": relayer.address, "value": VALUE}
    key = f"getting-started-{DEMO}"
    accepted = accept(Request(relayer.identifier, values, by, key, body_digest(values)))
    if not accepted.is_replay:
        record([acted(accepted.row, f"Sent by {by} as the first transaction of the demo.")])
    demo.rows["Transaction"] = accepted.row
    demo.media = admin.site.get_model_admin(Transaction).media
    demo.progress_url = reverse("admin:transactions_transaction_progress", args=[accepted.row.pk])
