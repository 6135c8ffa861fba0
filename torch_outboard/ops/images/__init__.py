"""Tables of pooling and interpolation."""
