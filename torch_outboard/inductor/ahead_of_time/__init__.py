"""Models that are compiled ahead of time, into packages that another process loads."""
