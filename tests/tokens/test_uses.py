"""What a token was used for: requests by address and outcome, on its page and on that for a leaked one."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client
from django.utils import timezone

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.models import AuditEntry
from relayer_service.audit.recording import acted, changed, record, snapshot
from relayer_service.storage.selections import Selection
from relayers.models import Relayer, RelayerTag
from tests.notifications.admin_pages import told
from tests.relayers.factories import relayer
from tokens import uses
from tokens.models import AccessToken, TokenUse
from tokens.tasks import prune_token_uses
from tokens.writes import issue, reissue, rotate

LIST = "/admin/tokens/accesstoken/"


def get(client: Client, text: str, address: str, path: str = "/api/v1/items") -> int:
    return client.get(path, headers={"Authorization": f"Bearer {text}"}, REMOTE_ADDR=address).status_code


def stored() -> dict[str, tuple[int, int, int, int]]:
    uses.flush()
    return {
        each.address: (each.requests, each.forbidden, each.refused, each.rejected) for each in TokenUse.objects.all()
    }


@pytest.mark.both_engines
def test_requests_are_counted_by_address_and_outcome(client: Client, user: User) -> None:
    token, text = issue(name="ci", user=user, scopes=["send"], allowed_networks=["192.0.2.0/24", "2001:db8::/32"])
    assert get(client, text, "192.0.2.1", "/api/v1/signers") == 403
    assert get(client, text, "2001:db8::1") == get(client, text, "2001:db8::2") == 403
    assert get(client, text, "203.0.113.9") == 401
    # Nobody without the secret adds anything.
    mistyped = text[:-1] + ("y" if text.endswith("x") else "x")
    assert get(client, mistyped, "198.51.100.1") == 401
    assert TokenUse.objects.count() == 0
    first = {"192.0.2.1": (1, 1, 0, 0), "2001:db8::/64": (2, 2, 0, 0), "203.0.113.9": (1, 0, 0, 1)}
    assert stored() == first
    uses.count(token.pk, "192.0.2.1", 403, "spending_refused")
    uses.count(token.pk, "192.0.2.1", 200, "")
    assert stored() == first | {"192.0.2.1": (3, 1, 1, 0)}
    row = TokenUse.objects.get(address="192.0.2.1")
    assert row.first_at < row.last_at


def test_a_token_fills_no_more_than_its_part_of_the_table(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "MAX_ADDRESSES", 2)
    token, _ = issue(name="ci", user=user)
    for number in range(4):
        uses.count(token.pk, f"192.0.2.{number}", 200, "")
    assert stored() == {"192.0.2.0": (1, 0, 0, 0), "192.0.2.1": (1, 0, 0, 0), "": (2, 0, 0, 0)}
    for number in (1, 7):
        uses.count(token.pk, f"192.0.2.{number}", 200, "")
    assert stored() == {"192.0.2.0": (1, 0, 0, 0), "192.0.2.1": (2, 0, 0, 0), "": (3, 0, 0, 0)}


def test_old_uses_are_pruned(user: User) -> None:
    token, _ = issue(name="ci", user=user)
    uses.count(token.pk, "192.0.2.1", 200, "")
    uses.count(token.pk, "192.0.2.2", 200, "")
    uses.flush()
    TokenUse.objects.filter(address="192.0.2.1").update(last_at=timezone.now() - uses.KEPT)
    prune_token_uses.call_local()
    assert [*stored()] == ["192.0.2.2"]


@pytest.fixture
def viewer(client: Client, db: None) -> User:
    """Staff who may see tokens and no more, signed in."""
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_accesstoken"))
    client.force_login(viewer)
    return viewer


def test_the_page_shows_addresses_and_changes_to_whoever_may_see_the_audit_log(
    client: Client, viewer: User, user: User
) -> None:
    token, _ = issue(name="R&D", user=user)
    uses.count(token.pk, "203.0.113.9", 403, "")
    uses.flush()
    with acting_as(ActorKind.TOKEN, "R&D", key=token.key):
        issue(name="made by it", user=user)
    # Before it was renamed.
    with acting_as(ActorKind.TOKEN, "CI", key=token.key), transaction.atomic():
        record([acted(token, "Signed a message.")])
        row = relayer()
        record([changed(row, {**snapshot(row), "policies.gas_price_cap": 30 * 10**9})])
    pages = [f"{LIST}{token.pk}/change/", f"{LIST}{token.pk}/leaked/"]
    for page in pages:
        shown = client.get(page).context["activity"]
        assert (shown["facts"]["Forbidden (403)"], shown["facts"]["First use"]) == ("1", "never")
        assert (shown["sections"], shown["log"]) == ({}, "")
    viewer.user_permissions.add(Permission.objects.get(codename="view_auditentry"))
    for page in pages:
        activity = client.get(page).context["activity"]
        assert activity["log"] == "/admin/relayer_service/auditentry/?q=R%26D"
        shown = activity["sections"]
        ((address, _, _, *counts),) = shown["Addresses"].rows
        assert (address, counts) == ("203.0.113.9", ["1", "1", "0", "0"])
        (_, _, _, what, _), (_, title, name, *_) = shown["Changes"].rows
        # As in the audit log, with links to what the user may view.
        made = AccessToken.objects.get(name="made by it")
        assert (title, name) == (
            "Created",
            f'<a class="audit underline" href="{LIST}{made.pk}/change/">access token {made}</a>',
        )
        assert "policies.gas_price_cap: 30 gwei → nothing" in what
    assert [row[1] for row in shown["Signatures and refusals"].rows] == ["Signed a message"]
    later = f"{timezone.now() + timedelta(hours=1):%Y-%m-%dT%H:%M}"
    assert client.get(pages[1], {"since": later}).context["activity"]["sections"]["Changes"].rows == []


@pytest.mark.parametrize(
    ("allowed", "words", "query", "found"),
    [
        ([], "every relayer", "", 3),
        (
            ["a-relayer-of-a-shop", "relayer 2"],
            "a-relayer-of-a-shop, relayer 2",
            "identifier__in=a-relayer-of-a-shop%2Crelayer+2",
            2,
        ),
        (["tag:a", "tag:b"], "tag:a, tag:b", "tag=a&tag=b", 1),
        (["tag:a", "relayer 2"], "relayer 2, tag:a", "", 3),
        (["main,2"], "main,2", "", 3),
    ],
)
def test_the_page_of_a_leaked_token_leads_to_the_relayers_to_pause(
    admin_client: Client, admin_user: User, allowed: list[str], words: str, query: str, found: int
) -> None:
    *_, last = [relayer(identifier=identifier) for identifier in ("a-relayer-of-a-shop", "relayer 2", "other")]
    RelayerTag.objects.create(relayer=last, name="b")
    token, _ = issue(name="ci", user=admin_user, scopes=["send"], allowed_relayers=allowed)
    reached = admin_client.get(f"{LIST}{token.pk}/leaked/").context["reached"]
    label = "Show them" if query else "All relayers"
    assert reached == {"words": words, "url": f"/admin/relayers/relayer/?{query}", "label": label}
    assert len(admin_client.get(reached["url"]).context["cl"].result_list) == found
    # Also what its successors could use before they were revoked.
    rotate(token.pk)
    AccessToken.objects.filter(pk=token.pk).update(allowed_relayers=["narrowed"])
    AccessToken.objects.update(enabled=False)
    reached = admin_client.get(f"{LIST}{token.pk}/leaked/").context["reached"]
    assert {*reached["words"].split(", ")} == ({*allowed, "narrowed"} if allowed else {"every relayer"})


@pytest.mark.both_engines
def test_the_relayers_that_a_leaked_token_reaches_are_paused_together(
    admin_client: Client, client: Client, admin_user: User, viewer: User
) -> None:
    first, second, other, *_ = [relayer(identifier=name) for name in ("a", "b", "c", "d")]
    RelayerTag.objects.create(relayer=second, name="eu")
    token, _ = issue(name="ci", user=admin_user, scopes=["send"], allowed_relayers=["a", "tag:eu", "d", "nobody"])
    Relayer.objects.filter(identifier="d").update(paused=True)
    page = f"{LIST}{token.pk}/"
    viewer.user_permissions.add(Permission.objects.get(codename="view_relayer"))
    client.force_login(viewer)
    seen = client.get(f"{page}leaked/").content.decode()
    assert ("Ask an Operator" in seen, "pause_reached" in seen) == (True, False)
    confirmed = {"confirmed": str(Selection.from_keys([other.pk])), "reason": "It leaked."}
    assert client.get(f"{page}pause_reached/").status_code == 403
    assert client.post(f"{page}pause_reached/", confirmed).status_code == 403
    assert f'href="{page}pause_reached/"' in admin_client.get(f"{page}leaked/").content.decode()
    asked = admin_client.get(f"{page}pause_reached/")
    confirmed["confirmed"] = asked.context["hidden"]["confirmed"]
    without_reason = admin_client.post(f"{page}pause_reached/", confirmed | {"reason": ""})
    assert (asked.context["title"], without_reason.status_code) == ("Pause relayers", 200)
    assert Relayer.objects.filter(paused=True).count() == 1
    assert admin_client.post(f"{page}pause_reached/", confirmed)["Location"] == f"{page}leaked/"
    assert {*Relayer.objects.filter(paused=True).values_list("identifier", flat=True)} == {"a", "b", "d"}
    assert AuditEntry.objects.filter(object_id=first.identifier).latest("pk").reason == "It leaked."
    shown = admin_client.get(f"{page}leaked/").content.decode()
    assert ("No relayer is left to pause." in shown, "pause_reached" in shown) == (True, False)
    again = admin_client.get(f"{page}pause_reached/", follow=True).content.decode()
    assert "No relayers to pause." in again


def test_whoever_pauses_a_part_of_many_relayers_is_told_to_repeat_it(
    admin_client: Client, admin_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relayers.admin.MAX_LISTED", 1)
    for name in ("a", "b"):
        relayer(identifier=name)
    token, _ = issue(name="ci", user=admin_user, scopes=["send"])
    asked = admin_client.get(f"{LIST}{token.pk}/pause_reached/")
    assert told(asked) == ["At most 1 relayers are paused at once: repeat this for the rest."]


def test_staff_who_may_pause_may_do_more_than_view_the_page_of_a_leaked_token(
    client: Client, admin_user: User, viewer: User
) -> None:
    viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_relayer", "pause_relayer"]))
    token, _ = issue(name="ci", user=admin_user, scopes=["send"])
    assert "Ask an Operator" not in client.get(f"{LIST}{token.pk}/leaked/").content.decode()


def revoke_button_is_primary(client: Client, page: str) -> bool:
    found = re.search(f'<a href="{page}revoke/"[^>]*>', client.get(f"{page}leaked/").content.decode())
    assert found
    return "bg-primary-600" in found[0]


@pytest.mark.both_engines
def test_a_revoked_token_is_replaced_once_with_its_rights(admin_client: Client, admin_user: User) -> None:
    expires_at = timezone.now() + timedelta(days=9)
    rights: dict[str, Any] = {"scopes": ["send"], "allowed_relayers": ["a"], "allowed_networks": ["192.0.2.0/24"]}
    leaked, _ = issue(name="ci", user=admin_user, expires_at=expires_at, **rights)
    page = f"{LIST}{leaked.pk}/"
    # As whoever has it may have done.
    stolen = rotate(leaked.pk).new
    refused = admin_client.post(f"{page}reissue/", follow=True).content.decode()
    assert f"Not issued: {leaked} is active: revoke it, or rotate it." in refused
    assert admin_client.get(f"{page}revoke/").context["title"] == "Revoke token"
    assert revoke_button_is_primary(admin_client, page)
    assert admin_client.post(f"{page}revoke/", {"reason": "Leaked."})["Location"] == f"{page}leaked/"
    assert not AccessToken.objects.filter(enabled=True).exists()
    over = admin_client.get(f"{page}leaked/").content.decode()
    assert ("<strong>Revoked.</strong>" in over, f"{page}revoke/" in over) == (True, False)
    assert "is issued and shown once" in admin_client.get(f"{page}reissue/").content.decode()
    issued = admin_client.post(f"{page}reissue/")
    new = AccessToken.objects.latest("pk")
    assert "no-store" in issued["Cache-Control"]
    assert f"rms_{new.key}_" in issued.content.decode()
    assert {name: getattr(new, name) for name in rights} == rights
    assert (new.expires_at, new.family, new.enabled) == (expires_at, leaked.key, True)
    again = admin_client.post(f"{page}reissue/", follow=True).content.decode()
    assert f"Not issued: {new} is active" in again
    assert AccessToken.objects.count() == 3
    assert not AccessToken.objects.get(pk=stolen.pk).enabled


@pytest.mark.both_engines
def test_what_is_done_about_a_revoked_token_spares_those_issued_after_that(
    admin_client: Client, admin_user: User
) -> None:
    leaked, _ = issue(name="ci", user=admin_user)
    page, tokens = f"{LIST}{leaked.pk}/", AccessToken.objects
    stolen = rotate(leaked.pk).new
    tokens.filter(pk=leaked.pk).disable()
    issued = rotate(reissue(leaked.pk).new.pk).new
    assert f'Issued by staff after it was revoked: <a class="underline" href="{LIST}{issued.pk}/' in (
        admin_client.get(f"{page}leaked/").content.decode()
    )
    # Enabled again by mistake, and rotated by whoever has it.
    tokens.filter(pk=stolen.pk).update(enabled=True)
    assert not revoke_button_is_primary(admin_client, page)
    again = rotate(stolen.pk).new
    asked = admin_client.get(f"{page}revoke/").context["texts"]
    names = [re.findall("/accesstoken/(\\d+)/", text) for text in asked[1:]]
    assert names == [[str(again.pk), str(stolen.pk)], [str(issued.pk), str(issued.pk - 1)]]
    admin_client.post(f"{page}revoke/", {"reason": "Leaked."})
    assert {*tokens.filter(enabled=True)} == {issued, tokens.get(pk=issued.pk - 1)}
    admin_client.post(f"{page}delete/", {"post": "yes"})
    assert tokens.filter(enabled=True).count() == 2
    # Those that it was rotated to are its successors.
    tokens.filter(pk=issued.pk - 1).disable()
    assert not tokens.filter(enabled=True).exists()


def test_staff_with_fewer_rights_revoke_and_get_no_secret(client: Client, viewer: User, user: User) -> None:
    token, _ = issue(name="ci", user=user, scopes=["manage"])
    page = f"{LIST}{token.pk}/"
    assert [client.post(f"{page}{view}/").status_code for view in ("revoke", "reissue")] == [403, 403]
    viewer.user_permissions.add(Permission.objects.get(codename="revoke_accesstoken"))
    assert [client.post(f"{page}{view}/").status_code for view in ("revoke", "reissue")] == [302, 403]
    assert [*AccessToken.objects.values_list("pk", "enabled")] == [(token.pk, False)]
