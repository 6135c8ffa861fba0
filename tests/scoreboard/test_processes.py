"""Processes that answer lines: what becomes of questions that end them."""

from collections.abc import Iterator

import pytest

from torch_outboard.scoreboard.processes import LineProcess, ask_all

ANSWERS = """
import os, sys, time
print("ready", flush=True)
for line in sys.stdin:
    match line.strip():
        case "end": sys.exit("the last words")
        case "abort": os.abort()
        case "sleep": time.sleep(60)
        case "half": print("half", end="", flush=True); os._exit(3)
        case word: print(word * 2, flush=True)
"""


@pytest.fixture
def process() -> Iterator[LineProcess]:
    made = LineProcess(["-c", ANSWERS], {})
    yield made
    made.close()


def test_what_becomes_of_questions(process: LineProcess) -> None:
    assert process.start() == "ready"
    for question, reason in (
        ("end", "exit status 1: the last words"),
        ("abort", "SIGABRT"),
        ("half", "exit status 3"),
    ):
        assert [process.ask(word, 60) for word in ("a", "b")] == ["aa", "bb"]
        with pytest.raises(EOFError, match=reason):
            process.ask(question, 60)
    process.start()
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        process.ask("sleep", 0.2)
    assert process.ask("a", 60) == "aa"


def test_starting() -> None:
    process = LineProcess(["-c", "raise SystemExit('no reason')"], {})
    with pytest.raises(RuntimeError, match=r"does not start: .* exit status 1: no reason"):
        process.ask("a", 60)
    process = LineProcess(["-c", "import os; print(os.environ['GIVEN'])"], {"GIVEN": "this"})
    assert process.start() == "this"
    process.close()


def test_several_at_once() -> None:
    workers = [LineProcess(["-c", ANSWERS], {}) for _ in range(2)]
    words = [chr(ord("a") + index) for index in range(20)]
    answers = ask_all(workers, words, lambda worker, word: worker.ask(word, 60))
    assert sorted(answers) == [word * 2 for word in words]
    # An error of one question ends the rest.
    with pytest.raises(EOFError, match="the last words"):
        list(ask_all(workers, ["a", "end", *"b" * 20], lambda each, word: each.ask(word, 60)))
    assert all(worker._process is None for worker in workers)
    assert list(ask_all(workers, [], LineProcess.ask)) == []
