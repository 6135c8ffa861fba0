"""Operator definitions of losses."""
