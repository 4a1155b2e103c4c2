"""What staff do with signers: a form for each type, and Verify."""

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from signers.config_shapes import SignerType
from signers.console.fields import KEY_SOURCE, KEYSTORE, PASSPHRASE, PLAIN_KEY, names_of
from signers.models import Signer
from tests.browser.conftest import TakeScreenshot, overflow
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.signers import test_uploads
from tests.signers.test_admin import RESOURCE_NAME
from tests.signers.usable import usable

LIST = "/admin/signers/signer/"


def choose(page: Page, signer_type: str) -> None:
    page.goto(f"{LIST}add/")
    page.locator("select[name=type]").select_option(signer_type)


def visible_fields(page: Page) -> set[str]:
    fields = page.locator("input[name*=__]:visible, textarea[name*=__]:visible")
    return {str(fields.nth(n).get_attribute("name")) for n in range(fields.count())}


def test_the_form_shows_the_fields_of_the_chosen_type_and_no_others(
    page: Page, take_screenshot: TakeScreenshot
) -> None:
    for signer_type in SignerType:
        choose(page, signer_type)
        names = {*names_of(signer_type)} - {KEY_SOURCE, KEYSTORE, PASSPHRASE}
        expect(page.locator(f"[name={min(names)}]")).to_be_visible()
        assert visible_fields(page) == names
    choose(page, "plain")
    page.locator(f"[name={KEY_SOURCE}]").select_option("keystore")
    expect(page.locator(f"[name={PLAIN_KEY}]")).to_be_hidden()
    assert visible_fields(page) == {KEYSTORE, PASSPHRASE}
    choose(page, "provider_c")
    values = {"address": "https://vault.example.com:8200", "key_name": "relayer-1", "namespace": "payments"}
    page.locator("[name=identifier]").fill("payments")
    for name, value in values.items():
        page.locator(f"[name=provider_c__{name}]").fill(value)
    take_screenshot(page, "signer-add-vault")


def test_a_local_key_is_added_and_verified(page: Page, take_screenshot: TakeScreenshot) -> None:
    choose(page, "plain")
    page.locator("[name=identifier]").fill("treasury")
    page.locator("[name=plain__key]").fill(factories.KEY)
    take_screenshot(page, "signer-add-plain")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(re.compile(f"Verified: {factories.ADDRESS} \\(\\d+ ms\\)"))).to_be_visible()
    assert Signer.objects.get().verified_identity == factories.ADDRESS
    take_screenshot(page, "signer-verify")
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) == 0


def test_a_google_key_is_added_from_its_file_and_its_resource_name(
    page: Page, take_screenshot: TakeScreenshot, tmp_path: Path
) -> None:
    config = usable("provider_b_kms")
    file = tmp_path / "account.json"
    file.write_text(json.dumps(config["service_account"] | {"type": "service_account"}))
    choose(page, "provider_b_kms")
    page.locator("[name=identifier]").fill("google")
    page.locator("[type=file]:visible").set_input_files(file)
    page.get_by_label("Resource name of the key version").fill(RESOURCE_NAME.format(**config["key"]))
    take_screenshot(page, "signer-add-google")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("google is saved, but not verified")).to_be_visible()
    assert Signer.objects.get().type == "provider_b_kms"


def test_a_keystore_is_uploaded(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "keystore.json"
    file.write_text(json.dumps(test_uploads.KEYSTORE))
    choose(page, "plain")
    page.locator("[name=identifier]").fill("uploaded")
    page.get_by_label("Key source").select_option("keystore")
    page.get_by_label("Keystore file").set_input_files(file)
    page.get_by_label("Passphrase of the keystore").fill(test_uploads.PASSPHRASE)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(re.compile(f"Verified: {OTHER_ADDRESS}"))).to_be_visible()


def test_a_key_is_replaced_after_a_question_that_names_the_relayers(page: Page) -> None:
    relayer = factories.relayer()
    page.goto(f"{LIST}{relayer.signer.pk}/change/")
    page.locator("[name=plain__key]").fill(OTHER_KEY)
    page.get_by_role("button", name="Save", exact=True).click()
    box = page.get_by_role("checkbox", name="Confirm the new address")
    expect(box).to_be_focused()
    expect(box).not_to_be_checked()
    expect(page.locator("[name=plain__key]")).to_have_value("")
    page.locator("[name=plain__key]").fill(OTHER_KEY)
    box.check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(f"moved to {OTHER_ADDRESS}: 1 relayer")).to_be_visible()
    relayer.refresh_from_db()
    assert relayer.address == OTHER_ADDRESS
