"""Pages of signers in the admin; `admin.py` registers them."""
