"""The report of `check`: a table for people and bug reports, or JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence

from torch_outboard.check.catalog import GROUPS, all_checks
from torch_outboard.check.outcome import Outcome, Verdict
from torch_outboard.check.runner import RUNS, Report
from torch_outboard.columns import columns

WIDTH = 100
RUN_WORDS = {"direct": "direct", "faults": "behind fault injection"}


def as_json(report: Report, versions: dict[str, str]) -> str:
    """The report as one JSON object."""
    counts = Counter(each.verdict.value for each in report.outcomes)
    content = {
        "driver": report.driver,
        "device": report.device,
        "problem": report.problem,
        "remark": report.remark,
        "versions": versions,
        "seconds": round(report.seconds, 1),
        "counts": {verdict.value: counts[verdict.value] for verdict in Verdict},
        "outcomes": [each.as_dict() for each in report.outcomes],
    }
    return json.dumps(content, indent=2)


def as_text(report: Report, versions: dict[str, str]) -> str:
    """The report for people: a table of the groups, what cannot be tested, and each failure."""
    title = f"{report.driver}: {report.device or 'no device'}"
    parts = [f"{title}\n{', '.join(f'{name} {text}' for name, text in versions.items())}"]
    if report.problem:
        return "\n\n".join([*parts, f"The driver cannot be checked: {report.problem}"])
    parts.append(_groups(report))
    parts += _reasons(report)
    if report.remark:
        parts.append(f"The second run is not delayed: {report.remark}.")
    parts += _failures(report)
    parts.append(_summary(report))
    return "\n\n".join(parts)


def _groups(report: Report) -> str:
    counts: dict[str, Counter[Verdict]] = {}
    times: dict[str, float] = defaultdict(float)
    for each in report.outcomes:
        group = each.check.partition(".")[0]
        counts.setdefault(group, Counter())[each.verdict] += 1
        times[group] += each.seconds
    rows = [("group", *(verdict.value for verdict in Verdict), "seconds")]
    for group, count in counts.items():
        numbers = (str(count[verdict] or "-") for verdict in Verdict)
        rows.append((group, *numbers, f"{times[group]:.1f}"))
    return columns(rows, range(1, 7))


def _reasons(report: Report) -> list[str]:
    """What was not offered and not testable: whole groups, then each reason once."""
    parts = []
    for verdict in (Verdict.NOT_OFFERED, Verdict.NOT_TESTABLE):
        checks: dict[str, list[str]] = {}
        for each in report.outcomes:
            if each.verdict == verdict and each.check not in checks.setdefault(each.reason, []):
                checks[each.reason].append(each.check)
        if not checks:
            continue
        lines = [f"{verdict.value.capitalize()}:"]
        whole = set()
        if verdict == Verdict.NOT_OFFERED:
            whole = _groups_without_anything(report)
            if whole:
                groups = sorted(whole, key=GROUPS.index)
                lines.append(_wrapped(f"optional functions of {', '.join(groups)} are missing"))
        for reason, names in checks.items():
            rest = [name for name in names if name.partition(".")[0] not in whole]
            if rest:
                lines.append(_wrapped(f"{reason}: {', '.join(rest)}"))
        parts.append("\n".join(lines))
    return parts


def _groups_without_anything(report: Report) -> set[str]:
    """Groups of which no check is offered."""
    verdicts: dict[str, set[Verdict]] = {}
    for each in report.outcomes:
        verdicts.setdefault(each.check.partition(".")[0], set()).add(each.verdict)
    return {group for group, found in verdicts.items() if found == {Verdict.NOT_OFFERED}}


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False
    )


def _failures(report: Report) -> list[str]:
    """A block for each check that failed, in one run or in both."""
    runs: dict[str, list[Outcome]] = {}
    for each in report.failures:
        runs.setdefault(each.check, []).append(each)
    parts = [_failure(outcomes) for outcomes in runs.values()]
    if len(parts) > 1:
        words = "Begin with the first failure: later checks use what earlier ones are about."
        parts.insert(0, words)
    return parts


def _failure(outcomes: Sequence[Outcome]) -> str:
    first = outcomes[0]
    where = " and ".join(RUN_WORDS[each.run] for each in outcomes)
    lines = [f"FAILED {first.check} ({where})", _wrapped(all_checks()[first.check].what)]
    for name in ("function", "says", "expected", "got", "advice"):
        title = {"says": "driver.h", "advice": "next"}.get(name, name)
        text = textwrap.fill(
            str(getattr(first, name)),
            WIDTH,
            initial_indent=f"  {title:<9} ",
            subsequent_indent=" " * 12,
            break_long_words=False,
        )
        lines.append(text)
    return "\n".join(lines)


def _summary(report: Report) -> str:
    counts = Counter(each.verdict for each in report.outcomes)
    named = ", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v])
    runs = sorted({each.run for each in report.outcomes}, key=RUNS.index)
    how = " and ".join(RUN_WORDS[run] for run in runs)
    return f"{named}; {how}, in {report.seconds:.0f} s"
