"""The seven signer types of the contract's section 2.2."""

from django.db import models


class SignerType(models.TextChoices):
    PLAIN = "plain", "Local key (plain)"
    PROVIDER_A_KMS = "provider_a_kms", "AWS KMS (provider_a_kms)"
    PROVIDER_B_KMS = "provider_b_kms", "Google Cloud KMS (provider_b_kms)"
    PROVIDER_C = "provider_c", "HashiCorp Vault KV (provider_c)"
    PROVIDER_C_TRANSIT = "provider_c_transit", "HashiCorp Vault Transit (provider_c_transit)"
    PROVIDER_D = "provider_d", "Turnkey (provider_d)"
    PROVIDER_E = "provider_e", "Coinbase CDP (provider_e)"
