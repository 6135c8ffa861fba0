"""Operator definitions of reductions and scans."""
