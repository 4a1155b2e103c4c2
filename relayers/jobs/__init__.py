"""Jobs with relayers, and the changes of many of them."""
