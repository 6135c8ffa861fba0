"""`python -m torch_outboard operators`: every overload of the installed PyTorch, and what runs it.

python -m torch_outboard operators relu                       # names with "relu" in them
python -m torch_outboard operators --where needs=kernel --where runs=nothing
python -m torch_outboard operators --columns operator,runs,file --sort runs --csv
"""

from __future__ import annotations

import argparse
import csv
import json
import pydoc
import re
import sys
from collections import Counter
from collections.abc import Callable

from torch_outboard.columns import columns
from torch_outboard.commands import extensions
from torch_outboard.inspection.operator_list import COLUMNS, overloads

# A column, and what tells whether a text in it is wanted.
Condition = tuple[str, Callable[[str], object]]
# Those that fit a terminal.
SHOWN = ("operator", "needs", "structured", "composite", "runs", "engine", "by", "file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    width = max(map(len, COLUMNS))
    parser.epilog = "columns:\n" + "\n".join(f"  {n:<{width}}  {w}" for n, w in COLUMNS.items())
    parser.add_argument(
        "pattern",
        nargs="?",
        default="^aten::",
        help="a regular expression that is looked for in the names (default: ^aten::)",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=PATTERN",
        help="only lines whose column matches the whole pattern; several must all match",
    )
    parser.add_argument(
        "--columns",
        default=",".join(SHOWN),
        help=f"names, separated by commas, or 'all' (default: {','.join(SHOWN)})",
    )
    parser.add_argument(
        "--sort", default="operator", help="columns to sort by, separated by commas"
    )
    extensions.add_argument(parser)
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    parser.add_argument("--no-pager", action="store_true", help="print all at once")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print comma-separated values")
    form.add_argument("--json", action="store_true", help="print a JSON list of objects")
    form.add_argument("--count", action="store_true", help="print how many lines of each kind")


def run(options: argparse.Namespace) -> int:
    """Prints the list; 1 if an option names a column, a pattern or a library that is none."""
    try:
        wanted, order, conditions = _chosen(options)
        extensions.load(options.library)
    except (ValueError, extensions.NotLoaded) as error:
        print(error, file=sys.stderr)
        return 1
    lines = [
        line
        for line in map(vars, overloads(options.device))
        if all(pattern(line[column]) for column, pattern in conditions)
    ]
    lines.sort(key=lambda line: [line[column] for column in order])
    rows = [[line[column] for column in wanted] for line in lines]
    if options.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([wanted, *rows])
    elif options.json:
        print(json.dumps([dict(zip(wanted, row, strict=True)) for row in rows], indent=1))
    elif options.count:
        counted = Counter((line["needs"], line["runs"]) for line in lines)
        cells = [(*kind, str(count)) for kind, count in sorted(counted.items())]
        print(columns([("needs", "runs", "overloads"), *cells], right=(2,)))
    else:
        text = columns([wanted, *rows]) + f"\n\n{len(rows)} overloads"
        if sys.stdout.isatty() and not options.no_pager:
            pydoc.pager(text)
        else:
            print(text)
    return 0


def _chosen(options: argparse.Namespace) -> tuple[list[str], list[str], list[Condition]]:
    """Columns to show, columns to sort by, and what columns must match.

    Raises:
        ValueError: for a name or a pattern that is none.
    """

    def names(text: str) -> list[str]:
        found = [name.strip() for name in text.split(",") if name.strip()]
        for name in found:
            if name not in COLUMNS:
                raise ValueError(f"'{name}' is no column; there are {', '.join(COLUMNS)}")
        return found

    def compiled(text: str) -> re.Pattern[str]:
        try:
            return re.compile(text)
        except re.error as error:
            raise ValueError(f"'{text}' is no regular expression: {error}") from None

    conditions: list[Condition] = [("operator", compiled(options.pattern).search)]
    for text in options.where:
        column, separator, pattern = text.partition("=")
        if not separator:
            raise ValueError(f"'{text}' is no condition; write it as in needs=kernel")
        conditions.append((names(column)[0], compiled(pattern).fullmatch))
    wanted = list(COLUMNS) if options.columns == "all" else names(options.columns)
    return wanted, names(options.sort), conditions
