"""What load balancers and Prometheus read: `/health`, `/ready`, `/metrics`; and the watch over the workers."""
