"""The page of one's own account: the time zone, and the sessions, which owners see and end on a user's page, too."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from unfold.decorators import action
from unfold.widgets import UnfoldAdminSelectWidget

from relayer_service.console.audit import DjangoModelAdmin
from relayer_service.console.dates import zone_names
from relayer_service.sign_in.models import UserPreference
from relayer_service.sign_in.sessions import end, sessions_of


class TimeZoneForm(forms.Form):
    time_zone = forms.ChoiceField(
        label="Time zone",
        help_text="Of the times on all pages, and of those that you enter. Charts, reports and the API stay in UTC.",
        widget=UnfoldAdminSelectWidget(),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["time_zone"]
        field.choices = [(name, name.replace("_", " ")) for name in zone_names()]


@never_cache
def account_view(request: HttpRequest) -> HttpResponse:
    """Show the page, or save the time zone, or end sessions."""
    user: Any = request.user
    if "end" in request.POST:
        return ended(request, user, reverse("admin:account"))
    chosen = UserPreference.objects.filter(user=user).first()
    form = TimeZoneForm(request.POST or None, initial={"time_zone": chosen.time_zone if chosen else "UTC"})
    if form.is_valid():
        UserPreference.objects.update_or_create(user=user, defaults=form.cleaned_data)
        messages.success(request, f"Times are shown in the time zone {form.cleaned_data['time_zone']}.")
        return HttpResponseRedirect(reverse("admin:account"))
    return page(request, user, "Your account", form=form)


def page(request: HttpRequest, user: User, title: str, **details: Any) -> TemplateResponse:
    found = [*sessions_of(user, request.session.session_key)]
    context = {**admin.site.each_context(request), "title": title, "sessions": found, **details}
    return TemplateResponse(request, "admin/account/account.html", context)


def ended(request: HttpRequest, user: User, back: str) -> HttpResponse:
    number = end(user, request.POST["end"], request.session.session_key)
    messages.success(request, "A session ended." if number == 1 else f"{number} sessions ended.")
    return HttpResponseRedirect(back)


class SessionsOfUsers(DjangoModelAdmin):
    """Adds a page to users with their sessions, for those who may change them."""

    @action(description="Sessions", url_path="sessions", permissions=["account"])
    def sessions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        user: User = self.get_object_or_404(request, object_id)
        if not self.has_change_permission(request, user):
            raise PermissionDenied
        if "end" in request.POST:
            return ended(request, user, request.path)
        return page(request, user, f"Sessions of {user}", back=reverse("admin:auth_user_change", args=[user.pk]))
