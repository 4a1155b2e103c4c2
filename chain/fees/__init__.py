"""What networks charge: the market, the gas of a transaction, and its fee in the network's coin."""
