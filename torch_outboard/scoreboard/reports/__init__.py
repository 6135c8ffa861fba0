"""Reports of a run: JSON, tables, a page, and what changed since the run before."""
