"""A request through the service's WSGI callable, in this process."""

import io
import time


def call(method: str, path: str, token: str, *, query: str = "", body: bytes = b"") -> tuple[str, float]:
    """Make a request as a WSGI server does; return the status and the processor's time for it."""
    from relayer_service.wsgi import application

    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": "application/json" if body else "",
        "CONTENT_LENGTH": str(len(body)) if body else "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1",
        "HTTP_AUTHORIZATION": f"Bearer {token}",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
    }
    started = time.process_time()
    answer = application(environ, lambda status, headers: statuses.append(status))
    b"".join(answer)
    answer.close()  # type: ignore[attr-defined]  # as a WSGI server does
    return statuses[0], time.process_time() - started
