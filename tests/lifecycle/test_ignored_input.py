"""Nothing of a request is ignored silently: faults with codes, notes about ignored input, and paths."""

from typing import Any

from django.test import Client

from notifications.models import Delivery, Notification
from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories

IGNORED_BODY = "the body was ignored: this operation accepts none"
NOT_BASE64 = "signing_key: must be base64 after whsec_"


def faults(answer: Any) -> list[tuple[str, str]]:
    assert answer.status == 400
    return [(entry["message"], entry["code"]) for entry in answer.body["metadata"]["logs"]]


def test_all_faults_of_a_new_relayer_come_at_once_with_their_codes(manager: Api) -> None:
    body = {
        "id": "a/status",
        "name": 1,
        "network": "moon",
        "network_type": "solana",
        "signer_id": "none",
        "notification_id": "none",
        "system_disabled": True,
        "color": "red",
        "policies": {"min_balance": -1},
        "spending_rules": {"max_valeu": 1},
    }
    answer = manager.post("/api/v1/relayers", body)
    assert sorted(faults(answer)) == [
        ("color: unknown field", "unknown_field"),
        ("id: an id must not end with /status, which is a path of the API", "invalid"),
        ("name: a string is required", "invalid"),
        ("network: unknown network: custom RPC URLs and a chain ID are required", "invalid"),
        ("network_type: must be one of: evm", "invalid_choice"),
        ("notification_id: object with this ID does not exist", "does_not_exist"),
        ("paused: this field is required", "required"),
        (f"policies.min_balance: a whole number from 0 to {2**128 - 1} is required", "invalid"),
        ("signer_id: object with this ID does not exist", "does_not_exist"),
        ("spending_rules.max_valeu: unknown field", "unknown_field"),
        ("system_disabled: this field is read-only", "read_only"),
    ]
    assert answer.headers["error-code"] == answer.body["metadata"]["logs"][0]["code"]
    # No rule of networks is applied to faulty fields.
    body = {"name": 1, "network": "moon", "custom_rpc_urls": "none"}
    messages = [message for message, _ in faults(manager.post("/api/v1/relayers", body))]
    assert [message for message in messages if message.startswith("network:")] == []
    assert not Relayer.objects.exists()


def test_all_faults_of_a_changed_relayer_come_at_once_with_their_codes(manager: Api) -> None:
    factories.relayer()
    body = {
        "network": "sepolia",
        "system_disabled": False,
        "name": 1,
        "notification_id": "none",
        "policies": {"min_balnce": None},
        "spending_rules": {"max_valeu": None},
    }
    assert faults(manager.patch("/api/v1/relayers/relayer-1", body)) == [
        ("network: this field cannot be changed", "immutable"),
        ("system_disabled: this field is read-only", "read_only"),
        ("name: a string is required", "invalid"),
        ("notification_id: object with this ID does not exist", "does_not_exist"),
        ("policies.min_balnce: unknown field", "unknown_field"),
        ("spending_rules.max_valeu: unknown field", "unknown_field"),
    ]


def test_all_faults_of_a_new_notification_come_at_once(manager: Api) -> None:
    body = {"id": "a/test", "url": "ftp://example.com", "signing_key": "whsec_not base64", "has_signing_key": True}
    assert faults(manager.post("/api/v1/notifications", body)) == [
        ("has_signing_key: this field is read-only", "read_only"),
        ("url: an absolute http or https URL is required", "invalid"),
        (NOT_BASE64, "invalid"),
        ("id: an id must not end with /test, which is a path of the API", "invalid"),
    ]
    assert not Notification.objects.exists()


def test_all_faults_of_a_new_signer_come_at_once_and_have_no_codes_in_the_body(manager: Api) -> None:
    answer = manager.post("/api/v1/signers", {"id": 1, "type": "plain", "config": {"keys": "x"}})
    assert (answer.status, answer.body) == (
        400,
        bodies.bad_request(
            "id: a string is required", "config.keys: unknown field", "config.key: this field is required"
        ),
    )
    assert answer.headers["error-code"] == "invalid"


def test_unknown_query_parameters_of_a_list_are_named(manager: Api) -> None:
    secret = "x" * 41
    for path in ("signers", "notifications", "relayers", "networks?per_page=0"):
        separator = "&" if "?" in path else "?"
        answer = manager.get(f"/api/v1/{path}{separator}colour=red&q=zzz&colour=blue&{secret}=1")
        assert [entry["message"] for entry in answer.body["metadata"]["logs"]] == [
            "colour: unknown query parameter, ignored",
            "(a name of over 40 characters): unknown query parameter, ignored",
        ]


def test_a_body_on_a_get_or_delete_is_ignored_with_a_note(manager: Api) -> None:
    factories.signer()
    factories.notification("hook-1")
    found = manager("GET", "/api/v1/signers/signer-1", raw=b"{}")
    assert found.body == bodies.success({"id": "signer-1", "type": "local", "config": {}}, logs=[IGNORED_BODY])
    factories.relayer()
    status = manager("GET", "/api/v1/relayers/relayer-1/status", raw=b"\xff").body
    assert [entry["message"] for entry in status["metadata"]["logs"]] == [IGNORED_BODY]
    listed = manager("GET", "/api/v1/networks?per_page=0", raw=b"{}").body
    assert [entry["message"] for entry in listed["metadata"]["logs"]] == [IGNORED_BODY]
    gone = manager("DELETE", "/api/v1/notifications/hook-1", raw=b"\xff")
    assert gone.body == bodies.success("Notification deleted successfully", logs=[IGNORED_BODY])


def test_a_body_on_a_post_that_accepts_none_is_a_bad_request(manager: Api) -> None:
    factories.notification("hook-1")
    for path in ("test", "deliveries/msg_1/replay"):
        answer = manager.post(f"/api/v1/notifications/hook-1/{path}", {})
        fault = bodies.bad_request("this operation accepts no body", code="unexpected_body")
        assert (answer.status, answer.body) == (400, fault)
    assert not Delivery.objects.exists()


def test_what_is_not_found_forbidden_or_in_use_has_a_code(manager: Api, api: Api) -> None:
    factories.relayer()
    relayer = "/api/v1/relayers/relayer-1"
    for path in ("stats", "stats/day", "status/day"):
        for method in ("GET", "PATCH", "DELETE", "POST", "PUT"):
            answer = manager(method, f"{relayer}/{path}", {} if method[0] == "P" else None)
            assert (answer.status, answer.body) == (404, bodies.failure("Not Found"))
            assert answer.headers["error-code"] == "unknown_path"
    answer = manager.get("/api/v1/relayers/team/relayer-2")
    assert (answer.status, answer.body) == (404, bodies.failure("Relayer with ID team/relayer-2 not found"))
    assert answer.headers["error-code"] == "not_found"
    assert api.get(relayer).headers["error-code"] == "insufficient_scope"
    assert manager("DELETE", "/api/v1/signers/signer-1").headers["error-code"] == "in_use"
    media_type = {"Content-Type": "application/merge-patch+json"}
    answer = manager.patch("/api/v1/signers/none", {}, headers=media_type)
    assert (answer.status, answer.headers["error-code"]) == (400, "not_supported")


def test_a_fault_that_is_found_before_the_operation_has_a_code_too(client: Client, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    answers = {path: client.get(f"/api/v1/{path}").json() for path in ("signers/a", "signers", "nothing")}
    uncoded = bodies.bad_request("HTTPS is required")
    coded = bodies.bad_request("HTTPS is required", code="https_required")
    assert answers == {"signers/a": coded, "signers": uncoded, "nothing": uncoded}


def test_a_relayer_without_an_address_says_so_instead_of_its_balance(manager: Api) -> None:
    factories.relayer(address="")
    answer = manager.get("/api/v1/relayers/relayer-1/balance")
    text = "Relayer has no address: its signer has not provided one yet"
    assert (answer.status, answer.body) == (503, bodies.failure(text))
    assert (answer.headers["retry-after"], answer.headers["error-code"]) == ("5", "account_unknown")
