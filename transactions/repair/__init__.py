"""What staff do to lanes and rows, and the invariants that they can check."""
