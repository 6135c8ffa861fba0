"""Inductor's cache folder: none that others can write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import try_python

pytestmark = pytest.mark.by_turns(2)

COMPILE = """
    import os, warnings
    import torch, torch_outboard
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch._inductor.compile_fx
        from torch._inductor.runtime.cache_dir_utils import cache_dir
    print(cache_dir())
    print(*[w.message for w in caught if "compiled graphs" in str(w.message)])
    print(oct(os.stat(cache_dir()).st_mode & 0o777))
"""


def used(**settings: str) -> list[str]:
    """The folder, what was said about it, and its mode."""
    done = try_python(COMPILE, **{"TORCHINDUCTOR_CACHE_DIR": None, **settings}, fresh=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("named", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_folder_of_others_is_not_used(tmp_path: Path, named: bool) -> None:
    import getpass

    folder = tmp_path / ("inductor" if named else f"torchinductor_{getpass.getuser()}")
    folder.mkdir()
    folder.chmod(0o777)
    settings = {"TORCHINDUCTOR_CACHE_DIR": str(folder)} if named else {}
    instead, said, mode = used(TMPDIR=str(tmp_path), **settings)
    assert Path(instead).parent == tmp_path
    assert instead != str(folder)
    assert f"compiled graphs are not kept, because Inductor loads code from its cache and the folder {folder} can be written by others" in said  # fmt: skip # noqa: E501
    assert mode == "0o700"
    assert [entry.name for entry in os.scandir(tmp_path)] == [folder.name]
    assert not any(folder.iterdir())


@pytest.mark.slow
def test_a_folder_of_ones_own_is(tmp_path: Path) -> None:
    folder = tmp_path / "inductor"
    assert used(TORCHINDUCTOR_CACHE_DIR=str(folder))[:2] == [str(folder), ""]
    folder.chmod(0o777)
    trusting = used(TORCHINDUCTOR_CACHE_DIR=str(folder), OUTBOARD_CACHE_SHARED="1")
    assert trusting == [str(folder), "", "0o777"]
