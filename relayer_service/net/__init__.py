"""Client addresses, and outgoing HTTP to allowed addresses."""
