from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class CrashOnRequestMiddleware:
    """Fail as a broken middleware would, when a test asks for it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("X-Test-Crash") == "middleware":
            raise RuntimeError("the middleware failed")
        return self.get_response(request)
