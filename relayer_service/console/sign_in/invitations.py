"""Invitations: a link with which a new user sets a password, once and until it expires.

The tokens are Django's for resetting a password. They depend on the hash of the password, even an unusable one: a new
invitation, and a password, end those before.
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.views import PasswordResetConfirmView
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from unfold.decorators import action
from unfold.widgets import UnfoldAdminPasswordWidget

from relayer_service.audit.recording import acted, record
from relayer_service.console.audit import DjangoModelAdmin
from relayer_service.console.confirmation import PendingAction, ask

INVITE = "Create invitation link"
TEXTS = [
    "The link lets whoever has it set the password of {0} and sign in. It works once, within three days.",
    "Earlier links to {0} end.",
]
ALREADY_SET_UP = "Not invited: {} already has a password. If it is lost, set a new one on this page."
INACTIVE = "Not invited: {} is not active. Activate the user first."


def is_invitable(user: User) -> bool:
    return user.is_active and not user.has_usable_password()


def invite(key: int) -> str:
    """Return the path of a new invitation; "" if the user cannot be invited. Earlier ones end.

    The token is in the query, which is not logged.
    """
    with transaction.atomic():
        user = User.objects.select_for_update().get(pk=key)
        if not is_invitable(user):
            return ""
        user.set_unusable_password()
        user.save(update_fields=["password"])
        record([acted(user, "Invited")])
    name, token = urlsafe_base64_encode(force_bytes(user.pk)), default_token_generator.make_token(user)
    return reverse("admin:invitation", args=[name], query={"token": token})


class Inviting(DjangoModelAdmin):
    """Adds a page to users without a password, which shows a link to set one."""

    @action(description=INVITE, url_path="invite", permissions=["account"])
    def invite(self, request: HttpRequest, object_id: str) -> HttpResponse:
        user: User = self.get_object_or_404(request, object_id)
        if not self.has_account_permission(request, user.pk):
            raise PermissionDenied
        pending = PendingAction.on_page(request, user.pk, reverse("admin:auth_user_change", args=[user.pk]))
        if is_invitable(user) and not pending.is_confirmed:
            return ask(request, self, pending, INVITE, [text.format(user) for text in TEXTS], None)
        link = invite(user.pk) if pending.is_confirmed else ""
        if not link:
            messages.error(request, (ALREADY_SET_UP if user.is_active else INACTIVE).format(user))
            return pending.leave()
        context = {
            **admin.site.each_context(request),
            "title": f"Invitation of {user}",
            "link": request.build_absolute_uri(link),
            "back": pending.back,
        }
        response = render(request, "admin/account/invitation.html", context)
        response["Cache-Control"] = "no-store"
        return response

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        elsewhere = {"_popup", "_addanother"} & request.POST.keys()
        if not elsewhere and is_invitable(obj) and self.has_account_permission(request, obj.pk):
            messages.success(request, f"{obj} was added. Create an invitation link, or go back.")
            return HttpResponseRedirect(reverse("admin:auth_user_invite", args=[obj.pk]))
        response: HttpResponse = super().response_add(request, obj, post_url_continue)
        return response

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Return the actions, with that of an invitation only for users who can be invited."""
        actions: list[Any] = super().get_actions_detail(request, object_id)
        user = self.get_object(request, unquote(object_id)) if actions else None
        return [item for item in actions if item.description != INVITE or (user and is_invitable(user))]


class PasswordForm(SetPasswordForm):  # type: ignore[type-arg]  # Django cannot subscript it
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})


class InvitationView(PasswordResetConfirmView):
    """Asks for the password of the invited user."""

    template_name = "admin/account/set_password.html"
    success_url = reverse_lazy("admin:login")
    form_class = PasswordForm
    title = "Set your password"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        # Django's view keeps the token in the session, and continues without it in the URL.
        return super().dispatch(request, *args, token=request.GET.get("token", self.reset_url_token), **kwargs)

    def get_user(self, uidb64: str) -> Any:
        user = super().get_user(uidb64)
        return user if user and is_invitable(user) else None

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**admin.site.each_context(self.request), **super().get_context_data(**kwargs)}

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            current = User.objects.select_for_update().filter(pk=form.user.pk, is_active=True).first()
            # Another request with the link was earlier, or a new link was made.
            if current is None or current.password != form.user.password:
                messages.error(self.request, "This invitation was used or withdrawn.")
                return HttpResponseRedirect(str(self.success_url))
            form.user = current
            record([acted(current, "Accepted the invitation")])
            messages.success(self.request, "Your password is set. Sign in with it.")
            return super().form_valid(form)
