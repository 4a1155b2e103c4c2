"""The admin site: the theme's, which requires a second factor of users who have one or must have one.

Not in `admin`, which registers its pages there. Imports in functions, as the settings name this module.
"""

from functools import partial
from typing import Any

from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.core.checks import CheckMessage
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, reverse
from unfold.sites import UnfoldAdminSite


class ConsoleConfig(SimpleAdminConfig):
    """The admin, whose pages are loaded with the URLs and not at startup: workers and most commands have none."""

    default_site = "relayer_service.console.site.ConsoleSite"


class ConsoleSite(UnfoldAdminSite):
    def check(self, app_configs: Any) -> list[CheckMessage]:
        autodiscover()
        return list(super().check(app_configs))

    def get_urls(self) -> list[URLPattern | URLResolver]:
        autodiscover()
        return list(super().get_urls())

    def has_permission(self, request: HttpRequest) -> bool:
        from relayer_service.sign_in.verification import is_verified

        if not super().has_permission(request):
            return False
        # Anyone may sign out.
        return is_verified(request) or request.path == reverse("admin:logout")

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        from relayer_service.console.sign_in import login_page

        return login_page.login(request, partial(super().login, request, extra_context))

    def logout(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        from relayer_service.console.sign_in import login_page

        login_page.record_sign_out(request)
        page: HttpResponse = super().logout(request, extra_context)
        return page

    def extra_urls(self) -> list[URLPattern]:
        from relayer_service.console.sign_in import account, invitations, second_factor

        # Those below `login/` are for users who have yet to give a code, or to set up a second factor.
        return [
            path("login/code/", second_factor.CodeView.as_view(), name="second_factor_code"),
            path("login/set-up/", second_factor.SetUpView.as_view(), name="second_factor_set_up"),
            path("login/invitation/<str:uidb64>/", invitations.InvitationView.as_view(), name="invitation"),
            path("account/", self.admin_view(account.account_view), name="account"),
            path("second-factor/", self.admin_view(second_factor.OverviewView.as_view()), name="second_factor"),
        ]
