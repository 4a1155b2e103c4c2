"""The fields of the admin's form for signers: for each type, in the order of the vendor's console."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.html import format_html
from rest_framework.serializers import Field
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from signers import signing
from signers.config_shapes import CONFIGS, SignerType
from signers.console import uploads
from signers.key_sources import KeySource

PLAIN, GOOGLE = SignerType.PLAIN, SignerType.PROVIDER_B_KMS
KEY_SOURCE, PLAIN_KEY = "key_source", f"{PLAIN.value}__key"
KEYSTORE, PASSPHRASE = f"{PLAIN.value}__keystore", f"{PLAIN.value}__passphrase"
GOOGLE_KEY = f"{GOOGLE.value}__key"
ACCOUNT = f"{GOOGLE.value}__service_account"
ACCOUNT_FILE = f"{ACCOUNT}_file"

VAULT = {
    "address": ("Address of Vault", "As in VAULT_ADDR.", "https://vault.example.com:8200"),
    "namespace": ("Namespace", "Of Vault Enterprise or HCP, at the top left of Vault's UI.", "admin/payments"),
}
APP_ROLE = {
    "role_id": ("Role ID", "From vault read auth/approle/role/<role>/role-id", ""),
    "secret_id": ("Secret ID", "From vault write -f auth/approle/role/<role>/secret-id", ""),
}
# Label, help and example of each field.
TEXTS: dict[SignerType, dict[str, tuple[str, str, str]]] = {
    PLAIN: {"key": ("Private key", "A secp256k1 key of 32 bytes in hex, with or without 0x.", "")},
    SignerType.PROVIDER_A_KMS: {
        "region": ("Region", "At the top right of the AWS console.", "eu-central-1"),
        "key_id": (
            "Key ID or ARN",
            "Customer managed keys, in the table or on the key's page. The key spec must be ECC_SECG_P256K1.",
            "1234abcd-12ab-34cd-56ef-1234567890ab",
        ),
    },
    GOOGLE: {
        "service_account": ("Or paste the service account key", "The whole contents of the JSON file.", ""),
        "key": (
            "Resource name of the key version",
            "On the key's page, Versions: Copy resource name, in a version's menu. Algorithm: secp256k1 - SHA256.",
            uploads.KEY_VERSION_EXAMPLE,
        ),
    },
    SignerType.PROVIDER_C: {
        **VAULT,
        "mount_point": ("Path of the secrets engine", "KV version 2. By default secret.", "secret"),
        "key_name": ("Path of the secret", "Its field value has the private key in hex.", "relayers/relayer-1"),
        **APP_ROLE,
    },
    SignerType.PROVIDER_C_TRANSIT: {
        **VAULT,
        "mount_point": ("Path of the secrets engine", "Transit. By default transit.", "transit"),
        "key_name": ("Name of the key", "Its type must be ed25519.", "relayer-1"),
        "pubkey": ("Public key", "On the key's page under Versions: 32 bytes in base64 or hex.", ""),
        **APP_ROLE,
    },
    SignerType.PROVIDER_D: {
        "organization_id": ("Organization ID", "In the menu at the top right of Turnkey's dashboard.", ""),
        "api_public_key": ("API public key", "User details, API keys: the public key in hex.", ""),
        "api_private_key": ("API private key", "Shown once, when the API key is created.", ""),
        "private_key_id": ("Private key ID or address", "Wallets: what signs, such as an address of a wallet.", ""),
        "public_key": ("Public key", "Of that account, a secp256k1 public key in hex.", ""),
    },
    SignerType.PROVIDER_E: {
        "api_key_id": ("API key ID", "API Keys, Secret API Keys: Create API key.", ""),
        "api_key_secret": ("API key secret", "Shown once, when the API key is created.", ""),
        "wallet_secret": ("Wallet secret", "Server Wallet, Accounts: Generate new secret. Shown once.", ""),
        "account_address": ("Account address", "Server Wallet, Accounts.", "0x0000…0001"),
    },
}
# What to check if a signer cannot be verified.
CHECKS: dict[str, str] = {
    SignerType.PROVIDER_A_KMS: "the AWS credentials of the service, which need kms:GetPublicKey and kms:Sign",
    GOOGLE: "that the Cloud KMS API is enabled, and that the service account has the role Cloud KMS CryptoKey "
    "Signer/Verifier with the permission to view the public key",
    SignerType.PROVIDER_C: "the address, the AppRole and its policy, which needs read on the secret",
    SignerType.PROVIDER_C_TRANSIT: "the address, the AppRole and its policy, which needs update on transit/sign",
    SignerType.PROVIDER_D: "the IDs, the API key, and Turnkey's policies for its user",
    SignerType.PROVIDER_E: "the API key, its IP allowlist, and the wallet secret",
}


class Unshown:
    """A mixin for a widget that never renders a value, not even the one just sent."""

    def format_value(self, value: Any) -> None:
        return None


class SecretTextarea(Unshown, UnfoldAdminTextareaWidget):
    pass


class SecretInput(Unshown, UnfoldAdminTextInputWidget):
    pass


class Marked:
    """A mixin for a field that is marked as required; the config checks it, as only fields of the type are."""

    def validate(self, value: Any) -> None:
        pass


class MarkedCharField(Marked, forms.CharField):
    pass


class MarkedFileField(Marked, forms.FileField):
    pass


@dataclass(frozen=True)
class ConfigField:
    """A field of the config of one signer type; `key` is its name in the form, which has the fields of all types."""

    type: SignerType
    name: str
    field: Field[Any, Any, Any, Any]
    is_secret: bool

    @property
    def key(self) -> str:
        return f"{self.type.value}__{self.name}"

    def form_field(self) -> forms.Field:
        label, text, example = TEXTS[self.type][self.name]
        widget: forms.Widget
        if self.key == ACCOUNT:
            widget = SecretTextarea(attrs={"rows": 2, "autocomplete": "off", "spellcheck": "false"})
        elif self.key == GOOGLE_KEY:
            widget = SecretInput(attrs={"autocomplete": "off", "spellcheck": "false"})
        elif self.is_secret:
            widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False)
        else:
            widget = UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"})
        optional = "" if self.field.required else "Optional. "
        example_text = format_html(" For example: <code>{}</code>", example) if example else ""
        help_text = format_html("{}{}{}", optional, text, example_text)
        # The file of the service account comes first.
        is_marked = self.field.required and self.key != ACCOUNT
        return MarkedCharField(label=label, required=is_marked, strip=False, widget=widget, help_text=help_text)


def upload_field(label: str, help_text: str) -> forms.FileField:
    widget = UnfoldAdminFileFieldWidget(attrs={"accept": ".json,application/json"})
    return MarkedFileField(label=label, allow_empty_file=True, widget=widget, help_text=help_text)


CONFIG_FIELDS = [
    ConfigField(each, name, CONFIGS[each]().fields[name], name not in CONFIGS[each].shown)
    for each in SignerType
    for name in TEXTS[each]
]
FIELDS: dict[str, forms.Field] = {field.key: field.form_field() for field in CONFIG_FIELDS} | {
    KEYSTORE: upload_field(
        "Keystore file", "A JSON file of version 3, as geth, Foundry and MetaMask write it. It is not stored."
    ),
    PASSPHRASE: forms.CharField(
        label="Passphrase of the keystore",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False),
    ),
    ACCOUNT_FILE: upload_field(
        "Service account key",
        "IAM & Admin, Service Accounts, the account, Keys, Add key: the JSON file. Only its account and key are kept.",
    ),
}


def names_of(signer_type: str) -> list[str]:
    """Return the fields of a type in the form, in order."""
    names = [field.key for field in CONFIG_FIELDS if field.type == signer_type]
    others: dict[str, list[str]] = {PLAIN: [KEY_SOURCE, *names, KEYSTORE, PASSPHRASE], GOOGLE: [ACCOUNT_FILE, *names]}
    return others.get(signer_type, names)


def condition(signer_type: SignerType, name: str) -> str:
    """Return when a field is shown, in JavaScript: the change page has no type to choose."""
    sources = {PLAIN_KEY: KeySource.ENTER, KEYSTORE: KeySource.KEYSTORE, PASSPHRASE: KeySource.KEYSTORE}
    shown = f"(typeof type === 'undefined' || type === '{signer_type.value}')"
    return f"{shown} && key_source === '{sources[name].value}'" if name in sources else shown


CONDITIONS = {name: condition(each, name) for each in SignerType for name in names_of(each)}


def install_hint(signer_type: str) -> str:
    """Return the command that installs the library of a type, as a line of a help text; "" if it is not missing."""
    missing = signing.missing_library(signer_type)
    return format_html('<strong class="block">{}</strong>', missing) if missing else ""
