"""One kernel of a compiled graph."""
