"""Pages of fee tokens and calls in the admin; `admin.py` registers them."""
