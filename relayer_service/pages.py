"""The middleware that only pages for people need: a program that calls the API has no session, form or frame."""

from typing import Any

from csp.middleware import CSPMiddleware as Csp
from django.contrib.auth.middleware import AuthenticationMiddleware as Authentication
from django.contrib.messages.middleware import MessageMiddleware as Message
from django.contrib.sessions.middleware import SessionMiddleware as Session
from django.http import HttpRequest
from django.middleware.clickjacking import XFrameOptionsMiddleware as XFrameOptions
from django.middleware.csrf import CsrfViewMiddleware as CsrfView
from whitenoise.middleware import WhiteNoiseMiddleware as WhiteNoise

API = "/api/v1/"


class PagesOnly:
    """Mixed into a middleware, has it leave out the API's own paths."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith(API):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]  # of the middleware that this is mixed into


class WhiteNoiseMiddleware(PagesOnly, WhiteNoise): ...


class CSPMiddleware(PagesOnly, Csp): ...


class SessionMiddleware(PagesOnly, Session): ...


class CsrfViewMiddleware(PagesOnly, CsrfView): ...


class AuthenticationMiddleware(PagesOnly, Authentication): ...


class MessageMiddleware(PagesOnly, Message): ...


class XFrameOptionsMiddleware(PagesOnly, XFrameOptions): ...
