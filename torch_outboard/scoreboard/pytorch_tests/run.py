"""Runs test files of a source tree of PyTorch: for CPU first, then on the device.

There run those that pass for CPU, and count apart those that have no test of their name for CPU.
Nothing of the tree is changed or kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from torch_outboard.scoreboard.answers import (
    PASS,
    SKIPPED,
    Answer,
    Journal,
    is_bad,
    worst,
)
from torch_outboard.scoreboard.exclusions import Exclusion, read_file, settle
from torch_outboard.scoreboard.processes import ask_all
from torch_outboard.scoreboard.pytorch_tests.exclusion_table import EXCLUSIONS, OF_SOME_SEEDS
from torch_outboard.scoreboard.pytorch_tests.loading import INDUCTOR, path_of
from torch_outboard.scoreboard.pytorch_tests.worker import TestProcess
from torch_outboard.scoreboard.run import TEST, Outcome, Plan, Progress, about

# Those that run by default, as far as the tree has them.
FILES = (
    "test_ops", "test_torch", "test_modules", "test_optim", "test_autograd", "test_unary_ufuncs",
    "test_binary_ufuncs", "test_reductions", "test_indexing", "test_linalg", "test_foreach",
    "test_sparse", "test_serialization", "test_dlpack", "test_nn", "test_view_ops",
    "test_type_promotion", "test_shape_ops", "test_sort_and_select", "test_tensor_creation_ops",
    "test_scatter_gather_ops", "test_segment_reductions", "test_spectral_ops", "test_complex",
    "nn/test_convolution", "nn/test_dropout", "nn/test_embedding", "nn/test_pooling",
)  # fmt: skip
JOURNAL = "pytorch-tests.jsonl"
# The folder of what passes for CPU, with a journal for each file.
ON_CPU = "pytorch-tests-cpu"
# The suites of tests without one for CPU.
ALONE = " (device only)"


@dataclass(frozen=True)
class Tree:
    """Which tests.

    Args:
        folder: of the source tree.
        files: below `test`, without the ending; FILES if there are none.
        match: a regular expression that is looked for in the names of tests.
        limit: the first tests of a file, at most; 0 for all.
    """

    folder: Path
    files: tuple[str, ...] = ()
    match: str = ""
    limit: int = 0

    def chosen(self) -> tuple[str, ...]:
        """Files that exist.

        Raises:
            FileNotFoundError: if a named one does not, or none does.
        """
        named = tuple(file.removesuffix(".py") for file in self.files)
        for file in named:
            path_of(str(self.folder), file)
        there = [f for f in FILES if (self.folder / "test" / f"{f}.py").exists()]
        if not named and not there:
            path_of(str(self.folder), FILES[0])
        return named or tuple(there)


def run(plan: Plan, tree: Tree, show: Callable[[str], None]) -> Outcome:
    """Runs the files of the tree.

    Raises:
        FileNotFoundError: if a file is not there.
        RuntimeError: if a file cannot be imported.
    """
    settings = plan.settings
    named = [e for path in settings.exclusions for e in read_file(Path(path))]
    exclusions = [e for e in (*EXCLUSIONS, *named) if e.is_for(settings.access, settings.placement)]
    files = tree.chosen()
    key = about(settings)

    def again(answer: Answer) -> bool:
        return answer.suite.removesuffix(ALONE) in files and (is_bad(answer) or not plan.resume)

    journal = Journal(plan.folder / JOURNAL, key, again, few=bool(tree.match or tree.limit))
    ran: list[Answer] = []
    for file in files:
        try:
            _run_file(plan, tree, file, journal, exclusions, ran, show)
        except RuntimeError as error:
            show(f"{file} cannot be imported for the device: {error}")
            ran.append(Answer(file, "crash", file))
            if len(files) == 1:
                raise
    return Outcome(
        sorted(journal.answers, key=lambda a: a.key), ran, key, journal.started, journal.saved
    )


def _journal_of_cpu(plan: Plan, tree: Tree, file: str) -> Journal:
    source = path_of(str(tree.folder.resolve()), file).read_bytes()
    about_file = metadata.version("torch") + hashlib.sha256(source).hexdigest()
    return Journal(plan.folder / ON_CPU / f"{file.replace('/', '.')}.jsonl", about_file)


def _run_file(
    plan: Plan,
    tree: Tree,
    file: str,
    journal: Journal,
    exclusions: Sequence[Exclusion],
    ran: list[Answer],
    show: Callable[[str], None],
) -> None:
    environment = {}
    if file in INDUCTOR:
        environment = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    settings = replace(plan.settings, environment=environment)

    def workers(count: int) -> list[TestProcess]:
        folder = str(tree.folder.resolve())
        return [TestProcess(settings, folder, file, plan.timeout) for _ in range(count)]

    lister = workers(1)[0]
    try:
        listed = [name for name in lister.names() if re.search(tree.match, name)]
    finally:
        lister.close()
    of_cpu, of_device = (
        [name.rpartition("@")[0] for name in listed if name.endswith(f"@{side}")]
        for side in ("cpu", "device")
    )
    if tree.limit:
        of_cpu, of_device = of_cpu[: tree.limit], of_device[: tree.limit]
    on_cpu = _journal_of_cpu(plan, tree, file)
    known = {a.entry for a in on_cpu.answers}
    missing = [f"{name}@cpu" for name in of_cpu if name not in known]
    if missing:
        show(f"{file}: {len(missing)} tests on CPU first")
        for answer in ask_all(workers(min(plan.jobs, len(missing))), missing, TestProcess.run):
            on_cpu.add(answer)
    passed = {a.entry for a in on_cpu.answers if a.status == PASS}
    alone = set(of_device) - set(of_cpu)
    done = {a.entry for a in journal.answers if a.suite.removesuffix(ALONE) == file}
    asked = [n for n in of_device if n not in done and (n in passed or n in alone)]
    if not asked:
        return
    progress = Progress(len(passed & set(of_device)) + len(alone), len(asked), show)
    names = [f"{name}@device" for name in asked]
    for answer in ask_all(workers(min(plan.jobs, len(names))), names, TestProcess.run):
        if answer.entry in alone:
            answer.suite += ALONE
        settle_exclusions(answer, exclusions)
        journal.add(answer)
        ran.append(answer)
        progress.add(answer)


def settle_exclusions(answer: Answer, exclusions: Sequence[Exclusion]) -> None:
    """Applies the exclusions; a test that PyTorch skips on the device has none."""
    if answer.status == SKIPPED:
        return
    named = [e for e in exclusions if e.check == TEST and is_about(e.entry, answer.entry)]
    answer.failures, answer.excluded = settle(
        answer.failures, named, answer.checks, (), lambda e: e.reason not in OF_SOME_SEEDS
    )
    answer.status = worst(answer.cells().values())


def is_about(entry: str, test: str) -> bool:
    """Whether an exclusion of this entry is about the test: the same, or for one of its dtypes."""
    return test == entry or test.startswith(f"{entry}_")
