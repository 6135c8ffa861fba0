"""Lowerings of operators that Inductor lacks, or has for other devices only."""
