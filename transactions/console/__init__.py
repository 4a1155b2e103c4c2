"""Pages of transactions and lanes in the admin; `admin.py` registers them."""
