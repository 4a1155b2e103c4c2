"""Pages of webhooks and deliveries in the admin; `admin.py` registers them."""
