"""The signer types of the contract's section 2.2, and the config of each: its fields, and which of them are secret.

Labels are for staff and name products; docstrings are for the OpenAPI document and use the contract's neutral words.
"""

from typing import Any, ClassVar

from django.db import models
from drf_spectacular.utils import extend_schema_field

from relayer_service.api.serializers import BodySerializer, ObjectField, StringField
from relayer_service.net.addresses import refuse_user_info, without_user_info

MAX_SHOWN_LENGTH = 2_048


class SignerType(models.TextChoices):
    PLAIN = "plain", "Local key (plain)"
    PROVIDER_A_KMS = "provider_a_kms", "AWS KMS (provider_a_kms)"
    PROVIDER_B_KMS = "provider_b_kms", "Google Cloud KMS (provider_b_kms)"
    PROVIDER_C = "provider_c", "HashiCorp Vault KV (provider_c)"
    PROVIDER_C_TRANSIT = "provider_c_transit", "HashiCorp Vault Transit (provider_c_transit)"
    PROVIDER_D = "provider_d", "Turnkey (provider_d)"
    PROVIDER_E = "provider_e", "Coinbase CDP (provider_e)"


# The contract does not show the fields of these objects: they are checked when the signer is used.
@extend_schema_field({"$ref": "#/components/schemas/KeyRequestConfig"})
class KeyRequestConfig(ObjectField):
    pass


@extend_schema_field({"$ref": "#/components/schemas/ServiceAccountRequestConfig"})
class ServiceAccountRequestConfig(ObjectField):
    pass


class ShownField(StringField):
    """A string that responses show; other fields are secret. Its length is bounded, as a page has up to a thousand."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_SHOWN_LENGTH, **kwargs)


class AddressField(ShownField):
    default_validators = [refuse_user_info]


class ConfigSerializer(BodySerializer):
    """The config of one signer type; `shown` has the names of its fields that are not secret."""

    shown: ClassVar[tuple[str, ...]]
    # The fields that determine where the secrets are sent: to change one, the secrets must be entered again.
    destination: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.shown = tuple(name for name, field in cls._declared_fields.items() if isinstance(field, ShownField))


class LocalConfig(ConfigSerializer):
    """A local key."""

    key = StringField(help_text="A secp256k1 key of 32 bytes in hex; its format is checked when it is used.")


class CloudKeyConfig(ConfigSerializer):
    """A key in a cloud key-management service; the credentials are those of the service's environment."""

    key_id = ShownField()
    region = ShownField()


class SecretStoreConfig(ConfigSerializer):
    """A key that is read from a secret store."""

    destination: ClassVar[tuple[str, ...]] = ("address",)

    address = AddressField(help_text="A URL without a user name or password.")
    key_name = ShownField()
    mount_point = ShownField(required=False)
    namespace = ShownField(required=False)
    role_id = StringField()
    secret_id = StringField()


class SecretStoreTransitConfig(SecretStoreConfig):
    """A key that signs inside a secret store."""

    pubkey = ShownField()


class KeyServiceConfig(ConfigSerializer):
    """A key held by a key service."""

    api_private_key = StringField()
    api_public_key = ShownField()
    organization_id = ShownField()
    private_key_id = ShownField()
    public_key = ShownField()


class WalletServiceConfig(ConfigSerializer):
    """An account held by a wallet service."""

    account_address = ShownField()
    api_key_id = ShownField()
    api_key_secret = StringField()
    wallet_secret = StringField()


class SecondCloudKeyConfig(ConfigSerializer):
    """A key in the second cloud key-management service, with the service account that uses it."""

    key = KeyRequestConfig()
    service_account = ServiceAccountRequestConfig()


CONFIGS: dict[SignerType, type[ConfigSerializer]] = {
    SignerType.PLAIN: LocalConfig,
    SignerType.PROVIDER_A_KMS: CloudKeyConfig,
    SignerType.PROVIDER_B_KMS: SecondCloudKeyConfig,
    SignerType.PROVIDER_C: SecretStoreConfig,
    SignerType.PROVIDER_C_TRANSIT: SecretStoreTransitConfig,
    SignerType.PROVIDER_D: KeyServiceConfig,
    SignerType.PROVIDER_E: WalletServiceConfig,
}


def shown_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the public part of a config, without the password that earlier releases accepted in an address."""
    return {name: without_user_info(value) if name == "address" else value for name, value in config.items()}


def split(signer_type: SignerType, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the public and the secret part of a config."""
    shown = CONFIGS[signer_type].shown
    public = {name: config[name] for name in shown if name in config}
    secret = {name: value for name, value in config.items() if name not in shown}
    return public, secret
