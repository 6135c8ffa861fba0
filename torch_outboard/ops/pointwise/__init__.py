"""Tables of operators whose results are computed element by element."""
