"""Signing in to the admin."""

from http import HTTPStatus

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from relayer_service.admin.errors import error_page
from relayer_service.ops.shares import SIGNING_IN, Busy

RETRY_AFTER_SECONDS = 5


def sign_in(request: HttpRequest) -> HttpResponse:
    """Return the admin's own page. Few may sign in at once: to check a password takes the processor long."""
    if request.method != "POST":
        return admin.site.login(request)
    try:
        with SIGNING_IN.occupied():
            return admin.site.login(request)
    except Busy:
        text = "Many are signing in at this moment. Go back and try again in some seconds."
        response = error_page(request, HTTPStatus.SERVICE_UNAVAILABLE, "Try again", text)
        response["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response
