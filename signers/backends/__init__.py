"""One backend for each signer type, as listed in `SIGNER_BACKENDS` of the settings."""
