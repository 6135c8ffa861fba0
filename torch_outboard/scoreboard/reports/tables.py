"""Results as tables, for the terminal and in Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from torch_outboard.columns import columns
from torch_outboard.scoreboard.answers import BAD, CRASH, EXCLUDED, FAIL, HANG, PASS
from torch_outboard.scoreboard.reports.results import Changes, Key, Score, scores

HEAD = ("suite", "check", "entries", "pass", "excluded", "fail", "crash", "hang", "%")
SHOWN = 20  # changes in the terminal, of each kind


def score_rows(found: Sequence[Score]) -> list[tuple[str, ...]]:
    """A row for each check, and one for all."""
    total: Counter[str] = Counter()
    for score in found:
        total += score.counts
    rows = [*found, Score("all", "", total)]
    return [
        (
            score.suite, score.check, f"{score.total}",
            *(f"{score.counts[s] or ''}" for s in (PASS, EXCLUDED, FAIL, CRASH, HANG)),
            percentage(score.share),
        )
        for score in rows
    ]  # fmt: skip


def percentage(share: float) -> str:
    """Never 100 where something is missing."""
    return "100" if share == 1 else f"{min(100 * share, 99.99):.2f}"


def in_terminal(results: Mapping[str, Any], found: Changes | None) -> str:
    rows = score_rows(scores(results))
    lines = [columns([HEAD, *rows], right=range(2, len(HEAD)))]
    lines.append("seconds of processes: " + ", ".join(seconds(results)))
    if owners := owner_counts(results):
        lines.append("excluded: " + ", ".join(f"{n} by {owner}" for owner, n in owners.items()))
    if found is not None:
        lines += change_lines(found)
    return "\n".join(lines)


def seconds(results: Mapping[str, Any]) -> list[str]:
    """By suite, summed over processes."""
    spent: defaultdict[str, float] = defaultdict(float)
    for row in results["answers"]:
        spent[row["suite"]] += row["seconds"]
    return [f"{suite} {count:.0f}" for suite, count in spent.items()]


def owner_counts(results: Mapping[str, Any]) -> dict[str, int]:
    """Of exclusions, by who would have to change something."""
    counts: Counter[str] = Counter()
    for row in results["answers"]:
        counts.update(
            row["owners"][check]
            for check, status in row["cells"].items()
            if status == EXCLUDED and check in row.get("owners", {})
        )
    return dict(sorted(counts.items()))


def change_lines(found: Changes) -> list[str]:
    lines = [
        f"since the run before: {len(found.worse)} worse, {len(found.better)} better, "
        f"{len(found.new)} new, {len(found.gone)} gone"
    ]
    for word, changed in (("worse", found.worse), ("better", found.better)):
        lines += [f"  {word}: {words(key)}: {was} -> {now}" for key, was, now in changed[:SHOWN]]
        if len(changed) > SHOWN:
            lines.append(f"  and {len(changed) - SHOWN} more")
    return lines


def words(key: Key) -> str:
    suite, dtype, entry, check = key
    return " ".join(word for word in (suite, entry, dtype, check) if word)


def as_markdown(results: Mapping[str, Any], found: Changes | None) -> str:
    """The score, what does not pass, exclusions with their owners, and notes about PyTorch."""
    about = results["about"]
    title = ", ".join(w for w in (about["driver"], about["placement"], about["memory"]) if w)
    lines = [f"# Scoreboard of {about['device']}: {title}", ""]
    lines += [f"- {name}: {value}" for name, value in about.items() if value]
    lines += ["", f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    lines += [f"| {' | '.join(row)} |" for row in score_rows(scores(results))]
    if found is not None:
        lines += ["", "## Changes", "", *(f"{line}  " for line in change_lines(found))]
    bad = [
        (row, check, status, reason)
        for row in results["answers"]
        for check, status in row["cells"].items()
        if status in BAD
        for reason in row["reasons"][check]
    ]
    lines += [
        "",
        "## Not right",
        "",
        "| suite | entry | dtype | check | | reason |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['suite']} | {r['entry']} | {r['dtype']} | {check} | {status} | {cell(reason)} |"
        for r, check, status, reason in bad
    ]
    lines += ["", "## Excluded", "", "| owner and reason | check | entries |", "|---|---|---|"]
    lines += [
        f"| {cell(reason)} | {check} | {cell(', '.join(sorted(entries)))} |"
        for (reason, check), entries in exclusions(results).items()
    ]
    if notes := [(r["entry"], note) for r in results["answers"] for note in r.get("notes", ())]:
        lines += ["", "## Differences of PyTorch's own", ""]
        lines += ["Meta tensors do not say what CPU does, or CPU has nothing to compare with.", ""]
        lines += ["| entry | where, and what |", "|---|---|"]
        lines += [f"| {entry} | {cell(note)} |" for entry, note in notes]
    return "\n".join(lines) + "\n"


def exclusions(results: Mapping[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Entries by reason and check."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in results["answers"]:
        for check, status in row["cells"].items():
            if status == EXCLUDED:
                for reason in row["reasons"][check]:
                    found[reason, check].add(f"{row['entry']} {row['dtype']}".strip())
    return found


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
