"""Headers whose values are not ASCII: a request that has one is refused, whatever the header means."""

from signers.models import Signer
from tests.api import WireApi
from tests.contract import bodies, raw

JSON_TYPE = b"Content-Type: application/json\r\n"
SIGNER = b'{"type": "plain", "config": {"key": "k"}}'


def test_a_value_that_is_not_ascii_is_a_bad_request(wire: WireApi) -> None:
    for lines, name in (
        (b"X-Forwarded-For: \xe9, 8.8.8.8\r\n", "X-Forwarded-For"),
        ("Idempotency-Key: café\r\n".encode(), "Idempotency-Key"),
        (b"Idempotency-Key: \xe9\r\nIdempotency-Key: a\r\n", "Idempotency-Key"),
        (b"Authorization: Bearer \xe9\r\n", "Authorization"),
        (b"Cookie: a=\xff\r\n", "Cookie"),
        (b"X-%s: \xff\r\n" % (b"a" * 100), "X-" + "A" + "a" * 37),
    ):
        head = JSON_TYPE + lines + raw.bearer(wire.token)
        answer = raw.send(wire.port, raw.request(b"POST", "/api/v1/signers?\ufffd".encode(), head, SIGNER))
        fault = f"{name}: the value of this header must be ASCII"
        assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
        assert len(answer.headers["x-request-id"]) == 20
    assert not Signer.objects.exists()


def test_outside_of_the_api_it_is_a_plain_bad_request(server_port: int) -> None:
    for path in (b"/metrics", b"/health", b"/admin/login/"):
        answer = raw.send(server_port, raw.request(b"GET", path, b"X-Forwarded-For: \xe9\r\n"))
        assert (answer.status, answer.headers["content-type"]) == (400, "text/plain")
        assert answer.text == b"X-Forwarded-For: the value of this header must be ASCII"
