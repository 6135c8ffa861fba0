"""Tables of sorting, and of searching and counting by order."""
