"""Checks which of a vendor's kernels another PyTorch would call.

python examples/schema_drift/run.py
"""

import sys
from pathlib import Path

import torch

from torch_outboard.commands import main

minor = int(torch.__version__.split(".")[1])
other = "2.15" if minor < 14 else "2.13"
library = Path(__file__).with_name("kernels.py")
status = main(["operators", "--against", other, "--library", str(library)])
# One of the kernels is for an operator that the other version does not have.
sys.exit(0 if status == 1 else "the kernel that is never called was not found")
