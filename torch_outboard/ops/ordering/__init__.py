"""Operator definitions of sorting, searching and counting."""
