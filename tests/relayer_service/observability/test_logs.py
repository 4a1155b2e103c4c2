"""What gets into a log line, and what does not however it is logged."""

import io
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from relayer_service.observability import logs
from relayer_service.observability.logs import redact

TOKEN = "rms_0123456789AB_0123456789ABCDEFGHIJ0123456789ABCDEFGHIJ3tMC2E"
HEX_KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIHunter2Hunter2\n-----END EC PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJlLWh1bnRlcjI"


class Log:
    """A logger of its own, configured as the service configures the root, whose lines can be read."""

    def __init__(self, style: str) -> None:
        self.stream = io.StringIO()
        configuration = logs.configuration("DEBUG", style)
        handler = configuration["handlers"]["stderr"] | {"stream": self.stream}
        logging.config.dictConfig(
            {
                "version": 1,
                "disable_existing_loggers": False,
                "filters": configuration["filters"],
                "formatters": configuration["formatters"],
                "handlers": {"stderr": handler},
                "loggers": {"tests.logs": {"handlers": ["stderr"], "level": "DEBUG", "propagate": False}},
            }
        )
        self.logger = logging.getLogger("tests.logs")

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def line(self) -> dict[str, Any]:
        (line,) = [json.loads(line) for line in self.text.splitlines()]
        assert isinstance(line, dict)
        return line


@pytest.fixture
def json_log() -> Iterator[Log]:
    yield Log("json")
    logging.getLogger("tests.logs").handlers.clear()


def in_traceback(text: str) -> Callable[[logging.Logger], None]:
    def attempt(logger: logging.Logger) -> None:
        try:
            try:
                raise KeyError(text)
            except KeyError as error:
                raise RuntimeError(text) from error
        except RuntimeError:
            logger.exception("It failed")

    return attempt


def in_fields(**fields: Any) -> Callable[[logging.Logger], None]:
    return lambda logger: logger.info("Fields", extra={"fields": fields})


def said(message: str, *args: Any) -> Callable[[logging.Logger], None]:
    return lambda logger: logger.info(message, *args)


# What is tried, and the part of it that no line may have.
ATTEMPTS: list[tuple[Callable[[logging.Logger], None], str]] = [
    (said(f"using {TOKEN}"), "0123456789ABCDEFGHIJ"),
    (said("header %r", {"Authorization": f"Bearer {TOKEN}"}), "0123456789ABCDEFGHIJ"),
    (said("Authorization: bearer hunter2"), "hunter2"),
    (said("Authorization: Basic dXNlcjpodW50ZXIy"), "dXNlcjpodW50ZXIy"),
    (said("sent BEARER   hunter2-hunter2"), "hunter2"),
    (said("sent Basic dXNlcjpodW50ZXIy"), "dXNlcjpodW50ZXIy"),
    (said("Cookie: sessionid=hunter2; csrftoken=hunter3"), "hunter3"),
    (said("headers %s", [("X-Api-Key", "hunter2"), ("Accept", "a")]), "hunter2"),
    (said("%(password)s is %(a)s", {"password": "secret=hunter2", "a": "b"}), "hunter2"),
    (said("password=hunter2"), "hunter2"),
    (said("user %s, password: '%s'", "alice", "hunter2 with spaces"), "with spaces"),
    (said("body %s", json.dumps({"config": {"api_key_secret": 'hun"ter2'}})), "ter2"),
    (said("body %s", json.dumps(json.dumps({"wallet_secret": "hunter2"}))), "hunter2"),
    (said("config %s", {"secret_id": "hunter2", "role_id": "role"}), "hunter2"),
    (said("config %s", {"signing_key": b"hunter2 hunter3"}), "hunter3"),
    (said("privateKey=%s", "hunter2"), "hunter2"),
    (said("passphrase => x; mnemonic: '%s'", "legal winner thank year"), "winner"),
    (said("GET /x?api_key=hunter2&a=1"), "hunter2"),
    (said("connecting to postgresql://relayer:hunter2@db/x"), "hunter2"),
    (said("connecting to redis://:hun@ter2@cache:6379"), "ter2"),
    (said("connecting to HTTPS://user:hunter2@node.example.com/"), "hunter2"),
    (said("node https://mainnet.example.com/v3/0123456789abcdef0123456789abcdef failed"), "0123456789abcdef"),
    (said("webhook to https://hooks.example.com/services/T0/hunter2 failed"), "hunter2"),
    (said("webhook to https://hooks.example.com?to=hunter2 failed"), "hunter2"),
    (said("webhook to https://localhost.example.com/hunter2 failed"), "hunter2"),
    (in_traceback("InvalidURL: https://hooks.example.com:8443/a#hunter2"), "hunter2"),
    (said("webhook key whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "MfKQ9r8"),
    (said("key 0x%s", HEX_KEY), HEX_KEY[:20]),
    (said("key_%s", HEX_KEY.upper()), HEX_KEY[:20].upper()),
    (said("key file: %s", PEM), "Hunter2"),
    (said("key file: %r", PEM), "Hunter2"),
    (said("key file, cut off: %s", PEM[:50]), "Hunter2"),
    (said("jwt %s", JWT), "eyJzdWIi"),
    (said("session-%s", JWT), "eyJzdWIi"),
    (said("settings %r", {"ENCRYPTION_KEYS": {"1": b"hunter2}'x", "2": b"hunter3"}}), "hunter3"),
    (said("DATABASES %r", {"default": {"USER": "a", "PASSWORD": "hunter2"}}), "hunter2"),
    (said("does not fit %d %s", "password=hunter2"), "hunter2"),
    (in_traceback(f"password=hunter2 {TOKEN}"), "hunter2"),
    (in_traceback(f"bad token {TOKEN}"), "0123456789ABCDEFGHIJ"),
    (lambda logger: logger.info("The stack has this: password=hunter2", stack_info=True), "hunter2"),
    (in_fields(password="hunter2"), "hunter2"),
    (in_fields(header=f"Bearer {TOKEN}"), "0123456789ABCDEFGHIJ"),
    (in_fields(config={"nested": [{"privateKey": "hunter2"}]}), "hunter2"),
    (in_fields(error=ValueError("password=hunter2")), "hunter2"),
    (in_fields(**{f"Bearer {TOKEN}": 1}), "0123456789ABCDEFGHIJ"),
]


@pytest.mark.parametrize("style", ["json", "text"])
def test_no_way_of_logging_a_secret_gets_it_into_the_line(style: str) -> None:
    shown = []
    for attempt, secret in ATTEMPTS:
        log = Log(style)
        attempt(log.logger)
        assert log.text
        if secret in log.text:
            shown.append(log.text)
    logging.getLogger("tests.logs").handlers.clear()
    assert shown == []


def test_the_services_own_secrets_are_known_by_their_value() -> None:
    key = django_settings.ENCRYPTION_KEYS["1"]
    texts = [django_settings.SECRET_KEY, repr(django_settings.TOKEN_PEPPERS), repr(key), f"0x{key.hex()}"]
    for text in [*texts, "1:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="]:
        found = redact(f"it is {text}.")
        assert "***" in found
        shown = [
            part for part in ("a-key-for-tests-only", "\\x1e", "\\x0e", "Hx4dHB", "000102030405") if part in found
        ]
        assert shown == []


HARMLESS = [
    "GET /api/v1/relayers 200 3.1 ms",
    "Rejected a credential (rms_0123456789AB_***): unknown key, wrong secret or inactive user",
    "The token was disabled, basic validation passed",
    "Redis is unavailable (TimeoutError): rate limits are not enforced",
    "listening on http://127.0.0.1:8000/admin/ since 12:30:45",
    "webhook to https://hooks.example.com/ failed",
    "relayer 0x52908400098527886E0F7030069857D2E4169EE7 has nonce 12",
    "signer 6f1c2a52-93c1-4a1a-8a39-0a3c5b8f9e10 created",
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "mail to staff@example.com: key 5 of 7",
    "a=1, b: 2; c='x' {\"d\": 4} größer",
]


def test_harmless_text_and_the_public_part_of_a_token_stay() -> None:
    assert [redact(text) for text in HARMLESS] == HARMLESS
    assert redact(f"Bearer {TOKEN}") == "Bearer rms_0123456789AB_***"


@given(st.text())
def test_redacting_twice_changes_no_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.text(alphabet="0123456789abcdef -:=/'\"{}"), st.text(alphabet="0123456789abcdef -:=/'\"{}"))
def test_a_token_is_redacted_whatever_stands_around_it(before: str, after: str) -> None:
    assert TOKEN[17:] not in redact(f"{before}{TOKEN}{after}")


VALUES: list[tuple[Any, Any]] = [
    (2**70, 2**70),
    (float("nan"), "nan"),
    ({1: (2, None)}, {"1": [2, None]}),
    ("\ud800", "\ud800"),
    (b"\xff", "b'\\xff'"),
    (True, True),
]


def test_a_json_line_has_the_members_that_a_collector_needs(json_log: Log) -> None:
    context = logs.request_id.set("a-request")
    # Fields cannot pretend to be the line.
    forged = {"message": "false", "request_id": "false", "level": "false"}
    fields = {"status": 200, "values": [value for value, _ in VALUES]} | forged
    try:
        json_log.logger.warning("Said %s", "so", extra={"fields": fields})
    finally:
        logs.request_id.reset(context)
    line = json_log.line
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "logger": "tests.logs",
        "request_id": "a-request",
        "message": "Said so",
        "status": 200,
        "values": [expected for _, expected in VALUES],
    }


def test_a_line_that_fails_is_one_line(json_log: Log) -> None:
    in_traceback("two\nlines")(json_log.logger)
    line = json_log.line
    assert line["message"] == "It failed"
    assert line["traceback"].endswith("RuntimeError: two\nlines")
    # Arguments that do not fit do not end the request.
    other = Log("json")
    other.logger.info("%d things", "many")
    assert other.line["message"] == "%d things (logged with arguments that do not match: ('many',))"


def test_a_repeated_warning_without_arguments_is_left_out() -> None:
    record = logging.LogRecord("tests.logs", logging.WARNING, "", 0, "Without arguments", (), None)
    assert [logs.RepeatedWarnings().filter(record) for _ in range(2)] == [True, False]


def test_a_text_line_names_its_request_and_a_caller_cannot_write_lines_of_its_own() -> None:
    log, context = Log("text"), logs.request_id.set("a-request")
    try:
        log.logger.info("GET %s", "/x\n12:00:00 INFO    - root: forged\x1b[2J")
    finally:
        logs.request_id.reset(context)
        logging.getLogger("tests.logs").handlers.clear()
    forged = "GET /x\\n12:00:00 INFO    - root: forged\\x1b[2J"
    assert log.text[8:] == f" INFO    a-request tests.logs: {forged}\n"


def test_a_request_is_one_line_with_the_id_it_is_answered_with(
    client: Client, db: None, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(logs.SecretFilter())
    response = client.get(
        "/api/v1/items", headers={"Authorization": f"Bearer {token}", "X-Request-ID": "from-outside"}
    )
    (record,) = [record for record in caplog.records if record.name == "relayer_service.requests"]
    line = json.loads(logs.JsonFormatter().format(record))
    assert response["X-Request-ID"] == line["request_id"] == "from-outside"
    assert line.pop("milliseconds") >= 0
    assert {name: line[name] for name in ("method", "path", "status", "client", "token")} == {
        "method": "GET",
        "path": "/api/v1/items",
        "status": 200,
        "client": "127.0.0.1",
        "token": token[4:16],
    }


def test_the_error_of_a_crash_is_logged_without_its_secret(
    client: Client, db: None, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(logs.SecretFilter())
    client.raise_request_exception = False
    response = client.get("/api/v1/crash", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 500
    assert "RuntimeError: password=***" in caplog.text
    assert "hunter2" not in caplog.text
    # A host that is not allowed is one line and no traceback.
    caplog.clear()
    assert client.get("/api/v1/signers", headers={"Host": "elsewhere.example"}).status_code == 400
    assert [record.name for record in caplog.records] == ["relayer_service.requests"]


@pytest.fixture
def debugging() -> Iterator[None]:
    """Have the loggers at the levels of LOG_LEVEL=DEBUG."""
    levels = {name: options["level"] for name, options in logs.configuration("DEBUG", "json")["loggers"].items()}
    before = {name: logging.getLogger(name).level for name in ("root", *levels)}
    for name, level in {"root": "DEBUG", **levels}.items():
        logging.getLogger(name).setLevel(level)
    yield
    for name, number in before.items():
        logging.getLogger(name).setLevel(number)


@pytest.mark.usefixtures("debugging")
def test_at_debug_a_page_does_not_log_what_its_templates_look_up(
    admin_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert admin_client.get("/admin/notifications/notification/add/").status_code == 200
    assert {record.name for record in caplog.records} == {"relayer_service.requests"}


@pytest.mark.usefixtures("debugging")
def test_at_debug_clients_do_not_log_the_credentials_that_they_fetch(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("boto3.resources", "botocore.parsers", "urllib3.connectionpool"):
        logging.getLogger(name).debug("AccessKeyId: AKIAIOSFODNN7EXAMPLE")
    assert caplog.text == ""
    configured = logs.configuration("ERROR", "json")["loggers"]
    assert {configured[name]["level"] for name in logs.NEVER_AT_DEBUG} == {"ERROR"}
