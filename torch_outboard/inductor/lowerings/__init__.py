"""How Inductor writes operators that it does not know, or knows for other devices alone."""
