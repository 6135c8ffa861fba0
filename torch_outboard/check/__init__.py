"""Checks of a driver against the contract `outboard/driver.h`, as `check` and the tests run them.

A check is a function of one opened driver (`session.py`) in a module of its group. It needs no
tests, no clone and no device of PyTorch. `catalog.py` lists them, `runner.py` runs each in a
process, `report.py` prints the results.
"""
