"""Operators that compiled graphs alone call."""
