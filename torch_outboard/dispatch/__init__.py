"""Decisions of users about operators: policies, placement, and kernels of their own."""
