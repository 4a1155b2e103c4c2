"""Who can view transactions on the pages of the admin."""

from django.http import HttpRequest

from relayer_service.console.panels import Panel
from relayer_service.extensions import is_enabled


def may_view_transactions(request: HttpRequest) -> bool:
    return is_enabled("transactions") and bool(request.user.has_perm("transactions.view_transaction"))


def may_send(request: HttpRequest) -> bool:
    return may_view_transactions(request) and bool(request.user.has_perm("transactions.add_transaction"))


class TransactionsPanel(Panel):
    def may_view(self, request: HttpRequest) -> bool:
        return may_view_transactions(request)
