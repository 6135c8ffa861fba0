"""Drivers that come with the package, and tools for driver authors to test a driver."""
