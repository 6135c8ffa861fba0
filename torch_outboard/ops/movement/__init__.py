"""Operator definitions of moving elements by rules, and of filling new tensors with numbers."""
