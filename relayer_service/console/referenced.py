"""The base class of the admin's pages of resources that other rows refer to."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Model, ProtectedError, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from unfold.decorators import display

from relayer_service.console.base import ResourceAdmin
from relayer_service.console.references import may_view_users, used_by

USED_CONCURRENTLY = "Not deleted: another object has started to use it."


class ReferencedAdmin(ResourceAdmin):
    """Its page shows the rows that use the resource, linked for staff who may view all of them and counted for others.

    Such rows block its deletion, even those that are created while it is being deleted.
    """

    # Models whose rows are deleted with the resource.
    dependents: list[type[Model]] = []

    def users_field(self, request: HttpRequest) -> str:
        return "used_by" if may_view_users(request, self.model, self.dependents) else "use_counts"

    @display(description="used by")
    def used_by(self, obj: Model) -> str:
        return used_by(obj, linked=True, without=self.dependents)

    @display(description="used by")
    def use_counts(self, obj: Model) -> str:
        return used_by(obj, linked=False, without=self.dependents)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        try:
            return super().delete_view(request, object_id, extra_context)
        except ProtectedError:
            self.message_user(request, USED_CONCURRENTLY, messages.ERROR)
            return HttpResponseRedirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        try:
            with transaction.atomic():
                super().delete_queryset(request, queryset)
        except ProtectedError:
            self.message_user(request, USED_CONCURRENTLY, messages.ERROR)
