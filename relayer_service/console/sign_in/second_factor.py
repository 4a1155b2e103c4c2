"""The pages of the second factor: giving a code, setting it up, renewing recovery codes, turning it off, resetting."""

import time
from typing import Any

import segno
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.generic import FormView
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from relayer_service.audit.recording import acted, record
from relayer_service.console.audit import DjangoModelAdmin
from relayer_service.console.confirmation import PendingAction, ReasonForm, ask
from relayer_service.console.sign_in.login_page import has_next_step, locked_page, record_failure, record_sign_in
from relayer_service.sign_in import codes
from relayer_service.sign_in.limits import CODES, Attempt, Locked
from relayer_service.sign_in.models import SecondFactor, disable, enable
from relayer_service.sign_in.verification import is_required, second_factor_of, verify_session
from relayer_service.storage.encryption import DecryptionError, Sealed, seal, unseal

# The key in the session, encrypted, until the first code proves that an app has it.
NEW_KEY = "second_factor_key"
WRONG_CODE = "This code is wrong, or was used before. Check the clock of your device and enter the next code."
UNREADABLE = (
    "Your second factor cannot be decrypted: a key is missing from ENCRYPTION_KEYS. Restore it, or reset the second "
    "factor with `manage.py reset_second_factor`."
)
RESET = (
    "{0} signs in with the password alone until a new second factor is set up. Make sure that it is {0} who asks for "
    "it."
)


def code_field(label: str, help_text: str) -> forms.CharField:
    attributes = {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
    widget = UnfoldAdminTextInputWidget(attrs=attributes)
    return forms.CharField(label=label, help_text=help_text, max_length=32, widget=widget)


class CodeForm(forms.Form):
    """A code of the second factor of a request's user, valid once."""

    code = code_field("Code", "The 6 digits that your authenticator app shows, or a recovery code.")

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.kind = ""

    def clean_code(self) -> str:
        text: str = self.cleaned_data["code"]
        user: Any = self.request.user
        attempt = Attempt(CODES, self.request, user.get_username())
        try:
            with attempt.counted():
                self.kind = user.second_factor.verify(text)
        except DecryptionError:
            raise forms.ValidationError(UNREADABLE) from None
        if not self.kind:
            record_failure(attempt, user, "wrong code")
            raise forms.ValidationError(WRONG_CODE)
        attempt.give_back()
        return text


class NewKeyForm(CodeForm):
    """The first code of a new key, after a code of the second factor that it replaces, if there is one."""

    code = code_field("Current code", "A code of the authenticator app that you replace, or a recovery code.")
    new_code = code_field("Code", "The 6 digits that your authenticator app shows for this key.")

    def __init__(self, *args: Any, key: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.key = key
        self.step: int | None = None
        if second_factor_of(self.request.user) is None:
            del self.fields["code"]
        else:
            # The code is accepted once, so the new one is checked first.
            self.order_fields(["new_code", "code"])

    def clean_new_code(self) -> str:
        text: str = self.cleaned_data["new_code"]
        self.step = codes.matching_step(self.key, text, after=-1, now=time.time())
        if self.step is None:
            raise forms.ValidationError(WRONG_CODE)
        return text

    def clean_code(self) -> str:
        return super().clean_code() if self.step is not None else self.cleaned_data["code"]


@method_decorator(never_cache, name="dispatch")
class SecondFactorView(RedirectURLMixin, FormView):  # type: ignore[type-arg]  # Django cannot subscript it
    title: str

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not self.is_allowed(request):
            return HttpResponseRedirect(reverse("admin:login"))
        try:
            return super().dispatch(request, *args, **kwargs)
        except Locked as locked:
            return locked_page(locked.args[0])

    def is_allowed(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def get_default_redirect_url(self) -> str:
        return reverse("admin:index")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = {"title": self.title, "next": self.get_redirect_url(), **super().get_context_data(**kwargs)}
        return {**admin.site.each_context(self.request), **context}

    def codes_page(self, recovery_codes: list[str]) -> HttpResponse:
        """Return the only page that shows new recovery codes."""
        context = {
            **admin.site.each_context(self.request),
            "title": "Recovery codes",
            "codes": recovery_codes,
            "done": self.get_success_url(),
        }
        return render(self.request, "admin/second_factor/codes.html", context)


class CodeView(SecondFactorView):
    """Asks for a code after the password."""

    title = "Enter a code"
    template_name = "admin/second_factor/code.html"
    form_class = CodeForm

    def is_allowed(self, request: HttpRequest) -> bool:
        return has_next_step(request) and second_factor_of(request.user) is not None

    def get_form(self, form_class: Any = None) -> CodeForm:
        form: CodeForm = super().get_form(form_class)
        form.fields["code"].widget.attrs["autofocus"] = True
        return form

    def form_valid(self, form: CodeForm) -> HttpResponse:
        factor: SecondFactor = self.request.user.second_factor  # type: ignore[union-attr]  # checked by is_allowed
        verify_session(self.request, factor)
        record_sign_in(self.request, f"Signed in with a {form.kind}")
        if form.kind == "recovery code":
            left = len(factor.recovery_codes)
            messages.warning(self.request, f"You used a recovery code. Unused recovery codes: {left}.")
        return HttpResponseRedirect(self.get_success_url())


class SetUpView(SecondFactorView):
    """Shows a new key, and takes it as the second factor once an app has computed a code with it."""

    title = "Set up two-factor authentication"
    template_name = "admin/second_factor/set_up.html"
    form_class = NewKeyForm

    def is_allowed(self, request: HttpRequest) -> bool:
        return admin.site.has_permission(request) or (
            has_next_step(request) and second_factor_of(request.user) is None
        )

    @property
    def key(self) -> str:
        """The key in the session; a new one if there is none."""
        session, context = self.request.session, f"{NEW_KEY}:{self.request.user.pk}"
        try:
            return unseal(Sealed(session[NEW_KEY]), context).decode()
        except (KeyError, DecryptionError):
            key = codes.new_key()
            session[NEW_KEY] = seal(key.encode(), context).text
            return key

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "key": self.key}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        uri = codes.provisioning_uri(self.key, self.request.user.get_username())
        picture = segno.make(uri, error="m", micro=False).svg_inline(
            border=4, dark="#000", light="#fff", omitsize=True
        )
        return super().get_context_data(
            # Drawn from the URI alone, in which everything is escaped.
            picture=mark_safe(picture),  # noqa: S308
            key=codes.base32(self.key),
            is_required=is_required(self.request.user),
            replaces=second_factor_of(self.request.user) is not None,
            **kwargs,
        )

    def form_valid(self, form: Any) -> HttpResponse:
        factor, recovery_codes = enable(self.request.user, form.key, form.step)  # type: ignore[arg-type]  # signed in
        del self.request.session[NEW_KEY]
        verify_session(self.request, factor)
        return self.codes_page(recovery_codes)


class OverviewView(SecondFactorView):
    """Shows whether a user has a second factor, renews recovery codes, and turns it off."""

    title = "Two-factor authentication"
    template_name = "admin/second_factor/overview.html"
    form_class = CodeForm

    def is_allowed(self, request: HttpRequest) -> bool:
        return request.method in {"GET", "HEAD"} or second_factor_of(request.user) is not None

    def get_default_redirect_url(self) -> str:
        return reverse("admin:second_factor")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        factor, user = second_factor_of(self.request.user), self.request.user
        return super().get_context_data(factor=factor, is_required=is_required(user), **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "turn_off" in request.POST and is_required(request.user):
            raise PermissionDenied
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: CodeForm) -> HttpResponse:
        user: Any = self.request.user
        if "turn_off" in self.request.POST:
            disable(user, "Disabled the second factor")
            messages.success(self.request, "Two-factor authentication is off.")
            return HttpResponseRedirect(self.get_success_url())
        with transaction.atomic():
            recovery_codes = user.second_factor.renew_recovery_codes()
            record([acted(user, "Renewed the recovery codes")])
        return self.codes_page(recovery_codes)


class ResettableSecondFactor(DjangoModelAdmin):
    """Adds a page to users, where superusers reset the second factor of somebody who has lost it."""

    @action(description="Reset second factor", url_path="reset-second-factor", permissions=["reset_second_factor"])
    def reset_second_factor(self, request: HttpRequest, object_id: str) -> HttpResponse:
        user: User = self.get_object_or_404(request, object_id)
        if not self.has_reset_second_factor_permission(request, user.pk):
            raise PermissionDenied
        pending = PendingAction.on_page(request, user.pk, reverse("admin:auth_user_change", args=[user.pk]))
        form = ReasonForm(request.POST or None, required=True)
        if not (pending.is_confirmed and form.is_valid()):
            return ask(request, self, pending, "Reset second factor", [RESET.format(user.get_username())], None, form)
        if disable(user, f"Reset the second factor: {form.cleaned_data['reason']}"):
            messages.success(request, f"The second factor of {user} was reset.")
        return pending.leave()

    def has_reset_second_factor_permission(self, request: HttpRequest, object_id: Any) -> bool:
        """Return whether the user is another one, with a second factor. One's own is turned off with a code."""
        return bool(
            request.user.is_superuser
            and str(object_id) != str(request.user.pk)
            and str(object_id).isdecimal()
            and SecondFactor.objects.filter(user=object_id).exists()
        )
