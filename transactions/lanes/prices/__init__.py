"""What a turn reads and pays: the market, simulations, first prices and higher ones."""
