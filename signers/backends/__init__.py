"""A backend for each signer type; `SIGNER_BACKENDS` in the settings says which."""
