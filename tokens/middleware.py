from django.http import HttpRequest
from django.http.response import HttpResponseBase

from relayer_service.api.error_codes import HEADER
from relayer_service.api.middleware import Middleware
from relayer_service.net.incoming import client_network
from tokens import uses


class TokenUseMiddleware(Middleware):
    """Counts the requests with a token, also those that it is rejected for."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if (token_id := getattr(request, "access_token_id", None)) is not None:
            address = client_network(request.META.get("REMOTE_ADDR", ""))
            uses.count(token_id, address, response.status_code, response.headers.get(HEADER, ""))
        return response
