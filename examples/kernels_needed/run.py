"""Counts the operators that need kernels on a new device, and the kernels of this one.

python examples/kernels_needed/run.py
"""

from collections import Counter

from torch_outboard.inspection.operator_list import overloads

lines = [line for line in overloads() if line.operator.startswith("aten::")]
needed = [line for line in lines if line.needs == "kernel"]
print(f"{len(lines)} overloads of ATen; {len(needed)} need a kernel on a new device:")
for runs, count in Counter(line.runs for line in needed).most_common():
    print(f"  {count:4} have a {runs} here" if runs != "own code" else f"  {count:4} have own code")

follow = Counter(line.structured for line in lines if line.needs == "out")
print(f"{sum(follow.values())} more follow from the out= form of their group, such as")
for form, count in follow.most_common(3):
    print(f"  {form}, which brings {count} others")

missing = [line.operator for line in needed if line.runs == "nothing"]
if missing:
    raise SystemExit(f"without a kernel: {', '.join(missing)}")
