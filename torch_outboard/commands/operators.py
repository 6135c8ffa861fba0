"""`python -m torch_outboard operators`: every overload of PyTorch, and its kernel here.

python -m torch_outboard operators relu                      # names with "relu" in them
python -m torch_outboard operators --where needs=kernel --where runs=nothing --csv
python -m torch_outboard operators --against 2.15 --library libmykernels.so
"""

from __future__ import annotations

import argparse
import csv
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields

from torch_outboard.columns import columns
from torch_outboard.inspection.drift import BREAKS, UNUSED, Drift, drift_against
from torch_outboard.inspection.operator_list import Overload, overloads
from torch_outboard.loading.user_code import add_library_argument, load_extensions

# Columns of --csv only.
_HIDDEN = ("schema", "here", "there")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"columns{(inspect.getdoc(Overload) or '').partition('Attributes')[2]}"
    parser.add_argument(
        "pattern",
        nargs="?",
        help="a regular expression that is looked for in the names (default: ^aten::; all with "
        "--against)",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=PATTERN",
        help="only lines whose column matches the whole pattern; several must all match",
    )
    parser.add_argument("--csv", action="store_true", help="comma-separated values, all columns")
    parser.add_argument(
        "--against",
        metavar="VERSION",
        help="list what differs in another PyTorch, and whether what is registered here fits it: a "
        "supported version, such as 2.15, or a file that --csv wrote. Exit status 1 if it does not",
    )
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    add_library_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the list or the differences; 1 if an option is invalid, if the other PyTorch will not
    call an extension's registration, or if any registration does not fit."""
    names = [field.name for field in fields(Drift if options.against else Overload)]
    try:
        conditions = [_condition(text, names) for text in options.where]
        default = "" if options.against else "^aten::"
        pattern = re.compile(default if options.pattern is None else options.pattern)
        load_extensions(options.library)
        found: Sequence[Drift | Overload]
        if options.against:
            found = [d for d in drift_against(options.against) if pattern.search(d.operator)]
        else:
            found = overloads(pattern, options.device)
    except re.error as error:
        print(f"'{error.pattern!s}' is not a regular expression: {error}", file=sys.stderr)
        return 1
    except (ValueError, RuntimeError) as error:
        print(str(error).partition("\nException raised from")[0], file=sys.stderr)
        return 1
    lines = [line for line in map(vars, found) if all(matches(line) for matches in conditions)]
    if options.csv:
        writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    else:
        shown = [name for name in names if name not in _HIDDEN]
        print(columns([shown, *([line[name] or "-" for name in shown] for line in lines)]) + "\n")
        for line in {line["operator"]: line for line in lines}.values():
            if line.get("here") and line["there"]:
                print(f"here   {line['here']}\nthere  {line['there']}\n")
        kinds = Counter(line["verdict" if options.against else "runs"] for line in lines)
        counts = ", ".join(f"{count} {kind or 'new'}" for kind, count in sorted(kinds.items()))
        what = "differences" if options.against else "overloads"
        print(f"{len(lines)} {what}: {counts or 'none'}")
    drifted = [d for d in found if isinstance(d, Drift)]
    unused = any(d.verdict == UNUSED and d.by != "kit" for d in drifted)
    return int(unused or any(d.verdict == BREAKS for d in drifted))


def _condition(text: str, names: Sequence[str]) -> Callable[[dict[str, str]], object]:
    """A predicate of table lines from `COLUMN=PATTERN`.

    Raises:
        ValueError: for an unknown column.
        re.error: for an invalid pattern.
    """
    column, separator, pattern = text.partition("=")
    if not separator or column not in names:
        raise ValueError(
            f"'{text}' is not a condition; write COLUMN=PATTERN with one of {', '.join(names)}"
        )
    matches = re.compile(pattern).fullmatch
    return lambda line: matches(line[column])
