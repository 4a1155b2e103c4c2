"""From a request to a row, and the changes that callers ask for."""
