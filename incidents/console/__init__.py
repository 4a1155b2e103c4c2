"""What only pages of the admin use."""
