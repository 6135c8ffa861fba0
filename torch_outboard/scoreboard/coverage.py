"""What device kernels ran in a run: names by family, and operators that ran on the host.

The journal of a run with the placement `device` holds what was observed: an operator counts on a
dtype if a device kernel of its own served a call on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch_outboard.columns import print_columns
from torch_outboard.scoreboard.answers import EXCLUDED, PASS, Answer, read_journal
from torch_outboard.scoreboard.run import JOURNAL, score

HOST_SHOWN = 40


def operator_name(overload: str) -> str:
    """`add` of `aten::add.Tensor`."""
    return overload.partition("::")[2].partition(".")[0]


def native_entries(answers: Sequence[Answer]) -> int:
    """Entries that pass, ran device kernels and no host kernel."""
    return sum(
        a.status == PASS and bool(a.served(on_device=True)) and not a.served(on_device=False)
        for a in answers
    )


def by_family(overloads: Iterable[str]) -> dict[str, set[str]]:
    """Operator names per family."""
    from torch_outboard.ops import tables

    known = tables.families()
    names: dict[str, set[str]] = defaultdict(set)
    for overload in overloads:
        names[known.get(overload, "other")].add(operator_name(overload))
    return names


def show(folder: Path, dtypes: Sequence[str] = ()) -> int:
    """Prints it; 1 if there is no such journal."""
    path = folder / JOURNAL
    answers = read_journal(path) if path.exists() else []
    answers = [a for a in answers if a.ran and (not dtypes or a.dtype in dtypes)]
    if not answers:
        print(f"{path} holds no run of device kernels; run one with --placement device first")
        return 1
    groups: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[answer.suite, answer.dtype].append(answer)
    rows = [("suite", "dtype", "entries CPU runs", "pass", "excluded", "pass without the host")]
    for (suite, dtype), found in groups.items():
        passed, runnable = score(found)
        excluded = sum(a.status == EXCLUDED for a in found)
        native = native_entries(found)
        share = f"{native} ({native / max(passed, 1):.0%})"
        rows.append((suite, dtype, f"{runnable}", f"{passed}", f"{excluded}", share))
    print_columns(rows, right=range(2, 6))
    on_device = {pair for a in answers for pair in a.served(on_device=True)}
    on_host = {pair for a in answers for pair in a.served(on_device=False)}
    families = by_family({name for name, _ in on_device})
    print()
    print_columns(
        [
            ("family", "operators", "that launched device kernels"),
            *((f, f"{len(n)}", " ".join(sorted(n))) for f, n in sorted(families.items())),
        ]
    )
    distinct = set().union(*families.values()) if families else set()
    print(
        f"\n{len(distinct)} operators, {len(on_device)} overloads with their dtypes launched "
        f"device kernels; {len(on_device & on_host)} of them ran on the host in other calls"
    )
    hosts = Counter(
        name for a in answers for name in {operator_name(o) for o, _ in a.served(on_device=False)}
    )
    print()
    print_columns(
        [
            ("operator on the host", "entries"),
            *((n, f"{c}") for n, c in hosts.most_common(HOST_SHOWN)),
        ]
    )
    return 0
