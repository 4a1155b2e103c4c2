"""Broadcasting signed transactions, and what the answers of nodes mean."""
