"""What a config holds for each signer type: its fields, and which of them an answer may show."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field

from relayer_service.api.serializers import BodySerializer, ObjectField, StringField
from relayer_service.net.addresses import refuse_user_info, without_user_info
from signers.types import SignerType

MAX_SHOWN_LENGTH = 2_048


@extend_schema_field({"$ref": "#/components/schemas/KeyRequestConfig"})
class KeyRequestConfig(ObjectField):
    """Any JSON object: its fields are not shown in the contract, and checked when the signer is used."""


@extend_schema_field({"$ref": "#/components/schemas/ServiceAccountRequestConfig"})
class ServiceAccountRequestConfig(ObjectField):
    """Any JSON object: its fields are not shown in the contract, and checked when the signer is used."""


class ShownField(StringField):
    """A string that answers may show, and so of a bounded length: a page has up to a thousand. Others are secret."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_SHOWN_LENGTH, **kwargs)


class AddressField(ShownField):
    """Where a server is: any string without a user name or a password, as answers show it."""

    default_validators = [refuse_user_info]


class ConfigSerializer(BodySerializer):
    """The config of one signer type. `shown` are the names of the fields that answers may show."""

    shown: ClassVar[tuple[str, ...]]
    # Where the secrets are sent: whoever changes it must know them.
    destination: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.shown = tuple(name for name, field in cls._declared_fields.items() if isinstance(field, ShownField))


class LocalConfig(ConfigSerializer):
    """A local key."""

    key = StringField(help_text="A secp256k1 key of 32 bytes in hex; its form is checked when it is used.")


class CloudKeyConfig(ConfigSerializer):
    """A key in AWS KMS; the credentials are those of the service's own environment."""

    key_id = ShownField()
    region = ShownField()


class SecretStoreConfig(ConfigSerializer):
    """A key that is read from HashiCorp Vault's KV store."""

    destination: ClassVar[tuple[str, ...]] = ("address",)

    address = AddressField(help_text="A URL without a user name or a password.")
    key_name = ShownField()
    mount_point = ShownField(required=False)
    namespace = ShownField(required=False)
    role_id = StringField()
    secret_id = StringField()


class SecretStoreTransitConfig(SecretStoreConfig):
    """A key that signs inside HashiCorp Vault's Transit engine."""

    pubkey = ShownField()


class KeyServiceConfig(ConfigSerializer):
    """A key held by Turnkey."""

    api_private_key = StringField()
    api_public_key = ShownField()
    organization_id = ShownField()
    private_key_id = ShownField()
    public_key = ShownField()


class WalletServiceConfig(ConfigSerializer):
    """An account held by Coinbase CDP."""

    account_address = ShownField()
    api_key_id = ShownField()
    api_key_secret = StringField()
    wallet_secret = StringField()


class SecondCloudKeyConfig(ConfigSerializer):
    """A key in Google Cloud KMS, with the service account that may use it."""

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
    """Return the part of a config that is not secret, of an address what is no password."""
    return {name: without_user_info(value) if name == "address" else value for name, value in config.items()}


def split(signer_type: SignerType, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config in two parts: what answers show, and what is secret."""
    shown = CONFIGS[signer_type].shown
    public = {name: config[name] for name in shown if name in config}
    secret = {name: value for name, value in config.items() if name not in shown}
    return public, secret
