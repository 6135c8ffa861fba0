"""Operator definitions of elementwise operators."""
