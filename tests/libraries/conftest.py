"""Other libraries as they are: `make test-libraries`, in an environment that has them.

A library that is not installed is left out. Nothing is downloaded.
"""

import pytest

from tests.programs.conftest import program_placement, pytest_generate_tests, same_as_on_cpu

__all__ = ["program_placement", "pytest_generate_tests", "same_as_on_cpu"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/libraries/" in item.path.as_posix():
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.separate)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")
