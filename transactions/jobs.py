"""Jobs with transactions: cancel, speed up, resend."""

from collections.abc import Sequence

from rest_framework.exceptions import APIException

from relayer_service.api.exceptions import faults
from relayer_service.audit import actors
from relayer_service.jobs.kinds import JobKind, Result
from transactions.models import FINAL, Transaction
from transactions.requests import actions
from transactions.requests.replacement_prices import staff_price


class TransactionKind(JobKind):
    model_label = "transactions.Transaction"
    permission = "transactions.change_transaction"
    done = "Requested"
    skip_reason = "already final"
    # One lane is locked at a time, and briefly. The request commits with the job's progress: a kill repeats nothing.
    batch_size = 1

    def act(self, key: int, by: str) -> None:
        raise NotImplementedError

    def run(self, keys: Sequence[int]) -> Result:
        failures = []
        rows = Transaction.objects.filter(pk__in=keys).exclude(status__in=FINAL).order_by("pk")
        found = list(rows.values_list("pk", "identifier"))
        for key, identifier in found:
            try:
                self.act(key, actors.current().name)
            except APIException as error:
                failures.append((identifier, "; ".join(fault.message for fault in faults(error))))
        return Result(len(found) - len(failures), failures)


class CancelTransactions(TransactionKind):
    title = "Cancel transactions"
    job_title = "Cancel {}"
    explanation = (
        "Requests that {} be canceled. One without a nonce is not sent. One that was sent is replaced by a no-op at "
        "its nonce; if it is mined before the no-op, it ends as confirmed."
    )

    def act(self, key: int, by: str) -> None:
        actions.cancel(key, by=by, reason=self.reason)


class SpeedUpTransactions(TransactionKind):
    title = "Speed up transactions"
    job_title = "Speed up {}"
    explanation = "Requests a higher price for {}: one step up, or the market price of the next speed if that is more."

    def act(self, key: int, by: str) -> None:
        actions.speed_up(key, staff_price(Transaction.objects.only("pricing").get(pk=key)), by=by, reason=self.reason)


class ResendTransactions(TransactionKind):
    title = "Resend transactions"
    job_title = "Resend {}"
    explanation = "Broadcasts the signed bytes of {} again now, at the same nonce and price: none can be paid twice."

    def act(self, key: int, by: str) -> None:
        actions.resend(key, by=by, reason=self.reason)
