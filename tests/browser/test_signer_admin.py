"""What staff do with signers: a form for each type, and Verify."""

import re

import pytest
from playwright.sync_api import Page, expect

from signers.config_shapes import CONFIGS, SignerType
from signers.models import Signer
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY

LIST = "/admin/signers/signer/"
ADD = "/admin/signers/signer/add/"
KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


def choose(page: Page, signer_type: str) -> None:
    page.goto(ADD)
    page.locator("select[name=type]").select_option(signer_type)


def visible_fields(page: Page) -> set[str]:
    fields = page.locator("input[name*=__]:visible, textarea[name*=__]:visible")
    return {str(fields.nth(n).get_attribute("name")) for n in range(fields.count())}


@pytest.mark.parametrize("signer_type", SignerType.values)
def test_the_form_shows_the_fields_of_the_chosen_type_and_no_others(page: Page, signer_type: str) -> None:
    choose(page, signer_type)
    names = {f"{signer_type}__{name}" for name in CONFIGS[SignerType(signer_type)]().fields}
    expect(page.locator(f"[name={sorted(names)[0]}]")).to_be_visible()
    assert visible_fields(page) == names


def test_a_local_key_is_added_and_verified(page: Page, take_screenshot: TakeScreenshot) -> None:
    choose(page, "plain")
    page.locator("[name=identifier]").fill("treasury")
    page.locator("[name=plain__key]").fill(KEY)
    take_screenshot(page, "signer-add-plain")
    page.get_by_role("button", name="Save and verify").click()
    expect(page.get_by_text(re.compile(f"Verified: {ADDRESS} \\(\\d+ ms\\)"))).to_be_visible()
    assert Signer.objects.get().verified_identity == ADDRESS
    take_screenshot(page, "signer-verify")


def test_a_garbage_key_is_refused_where_it_was_typed(page: Page, take_screenshot: TakeScreenshot) -> None:
    choose(page, "plain")
    page.locator("[name=identifier]").fill("treasury")
    page.locator("[name=plain__key]").fill("garbage")
    page.get_by_role("button", name="Save and verify").click()
    fault = page.locator("form").get_by_text("The key must be a secp256k1 private key: 32 bytes in hex.")
    expect(fault).to_be_visible()
    take_screenshot(page, "signer-garbage-key")
    assert not Signer.objects.exists()


def test_a_key_is_replaced_after_a_question_that_names_the_relayers(
    page: Page, take_screenshot: TakeScreenshot
) -> None:
    relayer = factories.relayer()
    page.goto(f"{LIST}{relayer.signer.pk}/change/")
    page.locator("[name=plain__key]").fill(OTHER_KEY)
    page.get_by_role("button", name="Save", exact=True).click()
    box = page.get_by_role("checkbox", name="Confirm the new address")
    expect(box).to_be_focused()
    expect(box).not_to_be_checked()
    expect(page.locator("[name=plain__key]")).to_have_value("")
    take_screenshot(page, "signer-replace-key")
    page.locator("[name=plain__key]").fill(OTHER_KEY)
    box.check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(f"moved to {OTHER_ADDRESS}: 1 relayer")).to_be_visible()
    relayer.refresh_from_db()
    assert relayer.address == OTHER_ADDRESS


def test_the_form_of_a_vault_key(page: Page, take_screenshot: TakeScreenshot) -> None:
    choose(page, "provider_c")
    values = {"address": "https://vault.example.com:8200", "key_name": "relayer-1", "namespace": "payments"}
    page.locator("[name=identifier]").fill("payments")
    for name, value in values.items():
        page.locator(f"[name=provider_c__{name}]").fill(value)
    take_screenshot(page, "signer-add-vault")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("form").get_by_text("this field is required")).to_have_count(2)
    assert not Signer.objects.exists()
    expect(page.locator("[name=provider_c__address]")).to_have_value(values["address"])


def test_a_secret_is_nowhere_on_the_page_of_its_signer(page: Page) -> None:
    signer = Signer(identifier="treasury", type="plain")
    signer.set_config({"key": KEY})
    signer.save()
    page.goto(f"/admin/signers/signer/{signer.pk}/change/")
    expect(page.locator("[name=plain__key]")).to_have_value("")
    assert KEY not in page.content()
