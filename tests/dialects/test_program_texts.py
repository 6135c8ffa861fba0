"""The programs of every family of operators compile for aarch64, with vectors of four floats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.dialects.compiled import MISSING, compile_object

pytestmark = [pytest.mark.skipif(MISSING is not None, reason=str(MISSING)), pytest.mark.slow]

ROOT = Path(__file__).parents[2]
# As the driver `host` compiles there, for processors with vectors of 128 bits and with SVE.
FLAGS = ["--target=aarch64-unknown-linux-gnu", "-O3", "-fPIC", "-ffreestanding", "-fno-math-errno"]
PROCESSORS = ["neoverse-n1", "neoverse-v1"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("texts")
    made = subprocess.run(
        [sys.executable, "-m", "tests.dialects.program_texts", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    return sorted(folder.glob("*.cl"))


def test_every_program_compiles(texts: list[Path], tmp_path: Path) -> None:
    assert len(texts) > 50
    for i, path in enumerate(texts):
        text = path.read_text()
        options = text.partition("\n")[0].removeprefix("//").split()
        processor = f"-mcpu={PROCESSORS[i % len(PROCESSORS)]}"
        # Kernels as functions that nobody calls, or they would be left out.
        given = [*FLAGS, processor, *options, "-D__kernel=", "-Dkernel="]
        try:
            compile_object(text, given, tmp_path)
        except subprocess.CalledProcessError as error:
            pytest.fail(f"{processor}:\n{error.stderr[:2000]}\n{text[-3000:]}")
