"""Tables of losses."""
