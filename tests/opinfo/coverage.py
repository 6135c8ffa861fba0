"""Counts what device kernels ran in operator sweeps: names by family, entries without the host.

    python -m tests.opinfo.sweep --driver ocl --placement device --dtype float32
    python -m tests.opinfo.coverage [--dtype float32 ...]

It reads the journals of the sweeps, by default of every dtype, which hold what was observed: an
operator counts on a dtype if a device kernel of its own served a call on it. Journals of other
sources than the present ones are left out.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.opinfo.sweep import FOLDER, native_entries, operator_name, score
from tests.opinfo.worker import Answer
from tests.run import fingerprint
from torch_outboard.ops import tables


def read_journal(path: Path) -> list[Answer]:
    """The latest answer of each entry."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    latest = {row["entry"]: Answer.read(row) for row in rows if "entry" in row}
    return list(latest.values())


def by_family(overloads: Iterable[str]) -> dict[str, set[str]]:
    """Operator names per family."""
    known = tables.families()
    names: dict[str, set[str]] = defaultdict(set)
    for overload in overloads:
        names[known.get(overload, "other")].add(operator_name(overload))
    return names


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo.coverage", description=__doc__)
    parser.add_argument("--dtype", action="append", help="only this one; may be repeated")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--driver", default="ocl")
    parser.add_argument("--names", action="store_true", help="print every name")
    parser.add_argument("--host", action="store_true", help="print which operators ran on the host")
    options = parser.parse_args(argv)
    suffix = f"-shared-{options.driver}-device.jsonl"
    paths = sorted(options.folder.glob(f"*{suffix}"))
    wanted = [p for p in paths if not options.dtype or p.name.removesuffix(suffix) in options.dtype]
    present = {"sources": fingerprint()}
    for path in [p for p in wanted if json.loads(p.read_text().partition("\n")[0]) != present]:
        print(f"left out, since it is about other sources: {path.name}")
        wanted.remove(path)
    if not wanted:
        print(f"no sweep of device kernels has left a journal in {options.folder}; run one first")
        return 1
    console = Console()
    sweeps = Table("dtype", "entries CPU runs", "right", "excluded", "right without a host kernel")
    observed: set[tuple[str, str]] = set()
    also_on_host: set[tuple[str, str]] = set()
    on_host: Counter[str] = Counter()
    for path in wanted:
        answers = read_journal(path)
        right, runnable = score(answers)
        excluded = sum(a.status == "excluded" for a in answers)
        native = native_entries(answers)
        share = f"{native} ({native / max(right, 1):.0%})"
        sweeps.add_row(
            path.name.removesuffix(suffix), str(runnable), str(right), str(excluded), share
        )
        for answer in answers:
            observed |= answer.served(on_device=True)
            also_on_host |= answer.served(on_device=False)
            on_host.update({operator_name(name) for name, _ in answer.served(on_device=False)})
    console.print(sweeps)
    table = Table()
    table.add_column("family")
    table.add_column("operators that launched device kernels", justify="right")
    total: set[str] = set()
    for family, names in sorted(by_family({name for name, _ in observed}).items()):
        table.add_row(family, str(len(names)))
        if options.names:
            table.add_row("", " ".join(sorted(names)))
        total |= names
    table.add_section()
    table.add_row("distinct names", str(len(total)))
    console.print(table)
    console.print(
        f"{len(observed)} overloads with their dtypes launched device kernels; "
        f"{len(observed & also_on_host)} of them ran on the host in other calls"
    )
    if options.host:
        hosts = Table("operator on the host", "entries")
        for name, count in on_host.most_common():
            hosts.add_row(name, str(count))
        console.print(hosts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
