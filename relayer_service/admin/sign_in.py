"""Signing in to the admin."""

from http import HTTPStatus

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from relayer_service.admin.errors import error_page
from relayer_service.background.shares import RETRY_AFTER_SECONDS, SIGNING_IN, Busy


def sign_in(request: HttpRequest) -> HttpResponse:
    """Return the admin's login page. Few can sign in at once, as checking a password is expensive."""
    if request.method != "POST":
        return admin.site.login(request)
    try:
        with SIGNING_IN.occupied():
            return admin.site.login(request)
    except Busy:
        text = "Too many people are signing in right now. Go back and try again in a few seconds."
        response = error_page(request, HTTPStatus.SERVICE_UNAVAILABLE, "Try again", text)
        response["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response
