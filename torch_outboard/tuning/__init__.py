"""Measuring what is fastest on a device, and keeping it."""
