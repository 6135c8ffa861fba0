"""Operator definitions of pooling and interpolation."""
