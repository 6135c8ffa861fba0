"""Environment variables: values that are not possible, and names that look like settings."""

import json
import os
import re

import pytest

from tests.support import ROOT, run_python, try_python
from tools import settings_page
from torch_outboard import settings
from torch_outboard.setting_table import TABLE, Setting


def test_the_table_holds_what_the_sources_read():
    """The quoted names in the sources of the kit and of its drivers."""
    read = set()
    for folder in ("csrc", "torch_outboard"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".c", ".cpp", ".h") and file.name != "setting_table.py":
                read |= set(re.findall(r'"(OUTBOARD_[A-Z0-9_]*[A-Z0-9])"', file.read_text()))
    assert read == settings.KNOWN


def test_the_page_of_settings_is_the_table():
    assert settings_page.PAGE.read_text() == settings_page.page(), "python -m tools.settings_page"


NO_NUMBERS = ["nan", "inf", "-1", "+1", "1_0", "0x10", "1e", "e3", "one", "٣", "--", " 1", "1 "]


def bad_values(setting: Setting) -> list[str]:
    """Values that the setting does not have."""
    if setting.kind == "flag":
        return ["yes", "true", "2", "-1", "on", " 1", "01"]
    if setting.kind == "choice":
        return ["none of them", setting.choices[0].upper(), setting.choices[0] + " ", ","]
    if setting.kind == "list":
        return [",,,", " ", ", ,"] + (["float16,wrong", "wrong"] if setting.choices else [])
    if setting.kind == "whole":
        beyond = [str(int(setting.high) + 1), "1.5", "1e3", str(2**64), str(10**30)]
        return NO_NUMBERS + beyond + (["0"] if setting.low > 0 else [])
    return [*NO_NUMBERS, "2e9", "1e400", "-0.5"] if setting.kind == "number" else []


def good_values(setting: Setting) -> list[str]:
    if setting.kind == "flag":
        return ["0", "1"]
    if setting.kind == "choice":
        return list(setting.choices)
    if setting.kind == "list":
        return [",".join(setting.choices)] if setting.choices else ["one, two,"]
    if setting.kind == "whole":
        return [str(int(setting.low)), f"00{int(setting.high)}"]
    return ["0", "1e9", "0.5", ".5", "1.", "2e-1"] if setting.kind == "number" else ["anything"]


# Texts of any kind are possible values of the others.
CHECKED = [setting for setting in TABLE if setting.kind != "text"]


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_bad_values_are_named_with_what_is_possible(setting: Setting, monkeypatch):
    for value in bad_values(setting):
        monkeypatch.setenv(setting.name, value)
        with pytest.raises(ValueError, match=re.escape(f"{setting.name}={value!r} ")) as raised:
            settings.read(setting.name)
        possible = [f"{setting.low:g} to "] if setting.high else setting.choices
        assert all(word in str(raised.value) for word in possible) or setting.kind == "list"
        assert settings.first_problem(setting.driver) == str(raised.value)
    for value in good_values(setting):
        monkeypatch.setenv(setting.name, value)
        assert settings.read(setting.name) is not None
        assert settings.first_problem(setting.driver) is None
    monkeypatch.setenv(setting.name, "")
    assert settings.read(setting.name) is None


def test_settings_of_other_drivers_do_not_matter(monkeypatch):
    monkeypatch.setenv("OUTBOARD_HOST_DEVICES", "many")
    assert settings.first_problem("ocl") is None
    assert "OUTBOARD_HOST_DEVICES='many'" in str(settings.first_problem("host"))


RAISES = """
    import warnings
    warnings.simplefilter("error", UserWarning)
    import torch
    import torch_outboard
    try:
        torch.ones(2, device=torch_outboard.device_name())
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("OUTBOARD_HOST_ACCESS", "OUTBOARD_HOST_ACCESS='x' is n"),
        ("OUTBOARD_WAIT_TIMEOUT", "OUTBOARD_WAIT_TIMEOUT='x' is not a number from 0 to 1e+09"),
        # A warning otherwise.
        ("OUTBOARD_PLACMENT", "OUTBOARD_PLACMENT (did you mean OUTBOARD_PLACEMENT?)"),
    ],
)
def test_the_first_use_raises_and_not_the_import(variable: str, words: str):
    settings = {"OUTBOARD_DRIVER": "host", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert words in run_python(RAISES, **settings, **{variable: "x"})


# The sentences of C and C++ for settings that they read, and "" where they take a value.
IN_C = """
import json, os, sys
from torch_outboard.drivers import contract, host, ocl
from torch_outboard.drivers.client import Client, DriverError

said = []
for driver, name, value in json.loads(sys.argv[1]):
    os.environ[name] = value
    try:
        Client(contract.load({"host": host, "ocl": ocl}[driver].library_path()))
        said.append("")
    except DriverError as error:
        said.append(str(error))
    del os.environ[name]
print(json.dumps(said))
"""


def test_drivers_refuse_the_same():
    read = [setting for setting in CHECKED if setting.driver in ("host", "ocl")]
    cases = [(s.driver, s.name, value) for s in read for value in bad_values(s)]
    without = {name: None for name in os.environ if name.startswith("OUTBOARD_")}
    printed = run_python(IN_C, json.dumps(cases), **without)
    for (_, name, value), sentence in zip(cases, json.loads(printed), strict=True):
        wrong = value.rpartition(",")[2] or value
        assert name in sentence, (name, value, sentence)
        assert wrong[:100] in sentence, (name, value, sentence)


MISSPELT = {
    "OUTBOARD_DRIVRE": "OUTBOARD_DRIVER",
    "OUTBOARD_OCL_DEVICE": "OUTBOARD_OCL_DEVICES",
    "OUTBOARD_HOST_ACESS": "OUTBOARD_HOST_ACCESS",
    "OUTBOARD_FALLBACK_COPY": "OUTBOARD_FALLBACK_COPIED",
}


def test_misspelt_variables_are_named_once():
    code = """
        import warnings
        warnings.simplefilter("always")
        import torch, torch_outboard
        for _ in range(2):
            torch.ones(2, device=torch_outboard.device_name())
    """
    unknown = {**dict.fromkeys(MISSPELT, "1"), "OUTBOARD_XYZZY_PLUGH": "1"}
    result = try_python(code, **unknown)
    assert result.returncode == 0, result.stderr
    for variable, meant in MISSPELT.items():
        assert result.stderr.count(f"{variable} (did you mean {meant}?)") == 1
    assert result.stderr.count("OUTBOARD_XYZZY_PLUGH") == 1
    assert result.stderr.count("did you mean") == len(MISSPELT)


def test_drivers_have_settings_of_their_own(tmp_path, monkeypatch):
    """All that begin with the name of a driver, unless its module says which."""
    (tmp_path / "open_chip.py").write_text("")
    (tmp_path / "chip_driver.py").write_text("SETTINGS = ('OUTBOARD_CHIP_SPEED',)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("CHIP_SPEED", "CHIP_SPED", "CHAP_A"):
        monkeypatch.setenv(f"OUTBOARD_{name}", "1")
    assert settings.unknown("chip") == ["OUTBOARD_CHAP_A"]
    assert settings.unknown("chip", "open_chip") == ["OUTBOARD_CHAP_A"]
    names = settings.unknown("chip", "chip_driver")
    assert names == ["OUTBOARD_CHAP_A", "OUTBOARD_CHIP_SPED"]
    words = settings.words_about(names, "chip_driver")
    assert "OUTBOARD_CHIP_SPED (did you mean OUTBOARD_CHIP_SPEED?)" in words
