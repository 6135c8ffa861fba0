"""Graphs that choose a way by their calls: what they are compiled from, and kept as."""
