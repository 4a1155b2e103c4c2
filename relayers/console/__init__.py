"""Pages of relayers, networks and nodes in the admin; `admin.py` registers them."""
