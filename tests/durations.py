"""Where the time of the last run went: seconds and tests of each stage by folder, in Markdown.

    python -m tests.durations [--rows N] [stage ...]

Reads what `python -m tests.run` leaves in `.test-results/<stage>.xml`. Seconds are summed over the
processes of a stage. "start" is what its processes spent before their first test and between tests:
imports, collection, fixtures of sessions.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from tests.run import RESULTS, jobs

OTHERS = "others"


def folder_of(classname: str) -> str:
    """`tests.runtime.test_x.TestY` is in `runtime`, `tests.test_x` in no folder."""
    parts = [part for part in classname.split(".")[1:] if not part.startswith(("test_", "Test"))]
    return parts[0] if parts else "."


def rows_of(report: Path, limit: int) -> list[tuple[str, str, int, float]]:
    """Stage, folder, tests and seconds, the longest folders first."""
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    folders: dict[str, list[float]] = defaultdict(list)
    for case in suite.iter("testcase"):
        folders[folder_of(case.get("classname", ""))].append(float(case.get("time", 0)))
    longest = sorted(folders, key=lambda folder: -sum(folders[folder]))
    for folder in longest[limit:]:
        folders[OTHERS] += folders.pop(folder)
    stage = report.stem
    processes = jobs() + 1  # as tests.run starts them
    wall = float(suite.get("time", 0))
    tested = sum(map(sum, folders.values()))
    found = [(stage, folder, len(times), sum(times)) for folder, times in folders.items()]
    found.sort(key=lambda row: (row[1] == OTHERS, -row[3]))
    all_tests = sum(map(len, folders.values()))
    return [
        (stage, f"all, in {wall:.0f} s", all_tests, tested),
        *found,
        (stage, "start", 0, max(0.0, processes * wall - tested)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durations", description=__doc__)
    parser.add_argument("stages", nargs="*", default=["shared", "separate", "faults", "ocl", "gpu"])
    parser.add_argument("--rows", type=int, default=8, help="folders of a stage")
    options = parser.parse_args()
    print("| stage | folder | tests | seconds |\n|---|---|---|---|")
    for stage in options.stages:
        report = RESULTS / f"{stage}.xml"
        if not report.exists():
            sys.exit(f"{report} is not there; run `python -m tests.run default --stage {stage}`")
        for name, folder, tests, seconds in rows_of(report, options.rows):
            print(f"| {name} | {folder} | {tests or ''} | {seconds:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
