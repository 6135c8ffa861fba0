"""Processes that answer lines: what becomes of questions that end them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.line_process import LineProcess, ask_all

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


def test_answers(process: LineProcess) -> None:
    assert process.start() == "ready"
    assert [process.ask(word, 60) for word in ("a", "b")] == ["aa", "bb"]


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("end", "exit status 1: the last words"),
        ("abort", "SIGABRT"),
        ("half", "exit status 3"),
    ],
)
def test_a_question_that_ends_it(process: LineProcess, question: str, reason: str) -> None:
    with pytest.raises(EOFError, match=reason):
        process.ask(question, 60)
    assert process.ask("a", 60) == "aa"


def test_a_question_that_takes_too_long(process: LineProcess) -> None:
    process.start()
    with pytest.raises(TimeoutError, match="no answer within 1 s"):
        process.ask("sleep", 1)
    assert process.ask("a", 60) == "aa"


def test_one_that_does_not_start() -> None:
    process = LineProcess(["-c", "raise SystemExit('no reason')"], {})
    with pytest.raises(RuntimeError, match=r"does not start: .* exit status 1: no reason"):
        process.ask("a", 60)


def test_environment() -> None:
    process = LineProcess(["-c", "import os; print(os.environ['GIVEN'])"], {"GIVEN": "this"})
    assert process.start() == "this"
    process.close()


def test_several_at_once() -> None:
    workers = [LineProcess(["-c", ANSWERS], {}) for _ in range(3)]
    words = [chr(ord("a") + place) for place in range(20)]
    answers = ask_all(workers, words, lambda worker, word: worker.ask(word, 60))
    assert sorted(answers) == [word * 2 for word in words]
    assert all(worker._process is None for worker in workers)


def test_what_asking_raises_ends_the_rest() -> None:
    workers = [LineProcess(["-c", ANSWERS], {}) for _ in range(2)]
    words = ["a", "end", *"b" * 20]
    with pytest.raises(EOFError, match="the last words"):
        list(ask_all(workers, words, lambda worker, word: worker.ask(word, 60)))
    assert all(worker._process is None for worker in workers)


def test_nothing_to_ask() -> None:
    assert list(ask_all([LineProcess(["-c", ANSWERS], {})], [], LineProcess.ask)) == []
