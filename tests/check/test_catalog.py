"""The list of checks: each cites the header, says what it is about, and is found by name."""

import re

import pytest

from torch_outboard.check.catalog import GROUPS, all_checks, chosen, failure
from torch_outboard.check.outcome import Failed
from torch_outboard.check.report import as_json, as_text
from torch_outboard.check.runner import Options, Report
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import FUNCTIONS, Status


def plain(text: str) -> str:
    """Words of a comment without its stars and line ends."""
    return " ".join(re.sub(r"^\s*(/?\*+/?)", " ", text, flags=re.M).replace("*/", " ").split())


HEADER = plain(contract.HEADER)


def test_every_check_cites_the_header() -> None:
    for name, each in all_checks().items():
        assert plain(each.says) in HEADER, name
        assert set(each.functions) <= FUNCTIONS.keys(), name
        assert each.what.endswith("."), name
        assert each.advice.endswith("."), name
    assert {each.group for each in all_checks().values()} == set(GROUPS)


def test_chosen() -> None:
    assert chosen([]) == list(all_checks().values())
    names = [each.name for each in chosen(["events.elapsed", "of_*", "graphs"])]
    assert "events.elapsed" in names
    assert "transfers.of_64_mebibytes" in names
    assert {name for name in names if name.startswith("graphs.")} == {
        name for name in all_checks() if name.startswith("graphs.")
    }
    with pytest.raises(ValueError, match="no check or group matches 'nonesuch'"):
        chosen(["events", "nonesuch"])


def test_failures_name_function_and_sentence() -> None:
    each = all_checks()["transfers.fills"]
    assert failure(each, Failed("a", "b"))["function"] == "fill"
    other = failure(each, Failed("a", "b", function="launch", says="S", advice="A"))
    assert (other["function"], other["says"], other["advice"]) == ("launch", "S", "A")
    called = failure(each, DriverError("allocate", Status.ERROR, "words"))
    assert (called["function"], called["got"]) == ("allocate", "ERROR: words")
    assert failure(each, KeyError("x"))["got"] == "KeyError: 'x'"


def test_report_of_a_driver_that_cannot_be_opened() -> None:
    report = Report("mychip", problem="it is not there")
    assert "The driver cannot be checked: it is not there" in as_text(report, {"PyTorch": "2"})
    assert '"problem": "it is not there"' in as_json(report, {})


def test_limits() -> None:
    each = all_checks()["transfers.of_2_gibibytes"]
    assert Options().limit(each) == each.seconds
    assert Options(longest=2).limit(each) == 2
