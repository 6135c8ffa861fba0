"""Operator definitions of normalizations and softmax."""
