"""Pages of access tokens in the admin; `admin.py` registers them."""
