"""Operator definitions of random numbers."""
