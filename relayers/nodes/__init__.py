"""The nodes that relayers depend on, and how they answer."""
