"""Tables of random numbers."""
