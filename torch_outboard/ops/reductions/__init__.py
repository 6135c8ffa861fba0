"""Tables of reductions and scans."""
