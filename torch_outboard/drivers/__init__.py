"""Drivers that come with the package, and what driver authors need to test theirs."""
