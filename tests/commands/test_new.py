"""The command `new`: what it refuses, and that what it writes for all options works."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.running import ROOT
from tests.support import SLOWNESS, environment_without, kernels_run_on
from torch_outboard.commands import main, new
from torch_outboard.commands.new import Options
from torch_outboard.drivers import building

EXAMPLE = ROOT / "examples" / "driver_package"
EVERY = [
    Options("mychip", memory, queues, compiler, products, python)
    for memory, queues, compiler, products, python in itertools.product(
        ("separate", "shared"), ("native", "threads"), ("none", "opencl", "clang"),
        (False, True), (False, True),
    )
    if not python or (queues == "native" and compiler != "none")
]  # fmt: skip


def name_of(wanted: Options) -> str:
    words = [wanted.memory, wanted.queues, wanted.compiler]
    words += ["products"] * wanted.products + ["python"] * wanted.python
    return "-".join(words)


every = pytest.mark.parametrize("wanted", EVERY, ids=name_of)


# ---- What it answers


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MyChip2", "lower-case letters and underscores only, no digits; take mychip."),
        ("", "lower-case letters"),
        ("my-chip", "take mychip."),
        ("_chip", "begin and end with a letter; take chip."),
        ("cuda", "PyTorch uses that name"),
        ("opencl", "PyTorch uses that name"),
        ("hip", "PyTorch uses that name"),
        ("fft", "PyTorch uses that name"),
        ("riscv", "a driver of that name is installed; take another name."),
        ("class", "as a keyword"),
        ("cache", "such as OUTBOARD_CACHE_DIR"),
    ],
)
def test_names_that_are_refused(name: str, words: str) -> None:
    assert words in (new.problem_with_name(name) or "")


def test_installed_packages_are_not_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new.problem_with_name("mychip") is None
    (tmp_path / "mychip_torch.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "a module mychip_torch is installed" in (new.problem_with_name("mychip") or "")
    monkeypatch.setattr(new, "_is_installed", "mychip-torch".__eq__)
    assert "`pip uninstall mychip-torch` removes" in (new.problem_with_name("mychip") or "")


def test_nothing_is_written_where_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (["taken"], "taken exists already: choose another folder with --folder."),
        (["Chip1"], "take chip."),
        (["chip", "--python", "--queues", "threads"], "--python needs --queues native"),
        (["chip", "--python", "--compiler", "none"], "--compiler none leaves out"),
    ):
        assert main(["new", *arguments]) == 1
        printed = capsys.readouterr().err
        assert words in printed
        assert len(printed.splitlines()) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_it_says_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mychip", "--memory", "shared", "--python"]) == 0
    printed = capsys.readouterr().out
    assert "pip install ./mychip\n" in printed
    assert "OUTBOARD_DRIVER=mychip python -c" in printed
    readme = (tmp_path / "mychip" / "README.md").read_text()
    assert "new mychip --memory shared --compiler clang --python`" in readme


# ---- What it writes


@every
def test_texts_have_no_trace_of_their_templates(wanted: Options) -> None:
    other = Options("my_npu", wanted.memory, wanted.queues, wanted.compiler, wanted.products,
                    wanted.python)  # fmt: skip
    for path, text in new.files(other).items():
        assert not re.search(r"^\s*#(if|else|endif)\b|mychip|COMMAND_OF", text, re.M | re.I), path
        assert re.search(r"[^\n]\n\Z", text), path
        assert not re.search(r"\n\n\n\n|[ \t]\n", text), path
        if path.endswith(".py"):
            compile(text, path, "exec")
    assert "chip:" in new.files(other)["src/my_npu_torch/my_npu.c"]


def test_a_condition_is_an_option() -> None:
    words = frozenset({"NATIVE", "PRODUCTS"})
    text = "a\n#if NATIVE && !CLANG\nb\n#if PRODUCTS\nc\n#else\nd\n#endif\n#else\ne\n#endif\n"
    assert new.resolved(text, words) == "a\nb\nc\n"
    assert new.resolved(text, frozenset({"THREADS"})) == "a\ne\n"
    with pytest.raises(ValueError, match="NATIV is not an option"):
        new.resolved("#if NATIV\n#endif\n", words)
    with pytest.raises(ValueError, match="no end"):
        new.resolved("#if NATIVE\n", words)


def test_the_example_is_what_it_writes() -> None:
    written = new.files(Options("mychip", products=True))
    paths = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=EXAMPLE, text=True,
    ).split()  # fmt: skip
    found = {path: (EXAMPLE / path).read_text() for path in paths}
    assert found == written, (
        "write the example again: rm -r examples/driver_package && python -m torch_outboard new "
        "mychip --products --folder examples/driver_package"
    )


# ---- What it writes, compiled and used

USE = """
import torch
import torch.nn.functional as F
from torch_outboard import fallback

torch.manual_seed(0)
ones = torch.ones(2, device="mychip")
assert str(ones) == "tensor([1., 1.], device='mychip:0')", ones
fallback.set_policy(copied="allow")
a, b, c, v = (torch.randn(*sizes) for sizes in ((3, 5, 7), (3, 7, 4), (5, 4), (4,)))
calls = {
    "bmm": lambda a, b, c, v: a @ b,
    "added vector": lambda a, b, c, v: torch.addmm(v, a[0], b[0], alpha=2),
    "in place": lambda a, b, c, v: c.clone().addmm_(a[0], b[0], beta=0.5),
    "transposed": lambda a, b, c, v: a[0].t() @ c,
    "one column": lambda a, b, c, v: a[0] @ b[0][:, :1],
    "of a slice": lambda a, b, c, v: a[0][:, ::2] @ b[0][::2],
    "repeated rows": lambda a, b, c, v: v.expand(5, 4) @ c.t(),
    "NaN that is not read": lambda a, b, c, v: torch.addmm(c * torch.nan, a[0], b[0], beta=0),
    "float64": lambda a, b, c, v: a[0].double() @ b[0].double(),
}
for name, call in calls.items():
    with fallback.report() as report:
        got = call(*(x.to("mychip") for x in (a, b, c, v)))
    torch.testing.assert_close(got.cpu(), call(a, b, c, v), msg=lambda m: f"{name}: {m}")
    placements = {row.placement for row in report.rows if row.op.rstrip("_").endswith("mm")}
    print(f"{name}:", *sorted(placements))


def losses(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    x, y = torch.randn(32, 7), torch.randint(4, (32,))
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    found = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


with fallback.report() as report:
    trained = losses("mychip")
torch.testing.assert_close(trained, losses("cpu"), rtol=1e-3, atol=1e-3)
assert trained[-1] < 0.5 * trained[0], trained
print("training:", *(where for where, share in report.share_by_placement().items() if share > 0.5))
try:
    torch.empty(2**31, device="mychip")
except torch.OutOfMemoryError as error:
    assert "has at most 1024.00 MiB" in str(error), error
"""
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
BY_LIBRARY = {
    "bmm", "added vector", "in place", "transposed", "one column", "NaN that is not read",
}  # fmt: skip


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Objects of the kit's sources, compiled once for all."""
    return {
        part: building.compile_sources(
            [path for path in building.sources(part) if Path(path).parent.name == part],
            tmp_path_factory.mktemp(part),
        )
        for part in building.PARTS
    }


def build(wanted: Options, project: Path, parts: dict[str, list[str]]) -> None:
    """What setup.py does, with objects that are there already, into a folder `installed`."""
    setup = (project / "setup.py").read_text()
    parts_line = next(line for line in setup.splitlines() if line.startswith("PARTS = "))
    used = ["common", *re.findall(r'"--with", "(\w+)"', parts_line)]
    assert set(used) == {
        "common", *(["queues"] if wanted.queues == "threads" else []),
        *(["compiler"] if wanted.compiler != "none" else []),
    }  # fmt: skip
    source = project / "src" / "mychip_torch" / "mychip.c"
    objects = building.compile_sources([str(source)], project, flags=WARNINGS)
    installed = project / "installed"
    shutil.copytree(source.parent, installed / "mychip_torch")
    library = "memory.so" if wanted.python else "libob_mychip.so"
    shared = [path for part in used for path in parts[part]]
    building.link(installed / "mychip_torch" / library, [*objects, *shared])
    metadata = installed / "mychip_torch-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mychip-torch\nVersion: 0.1\n")
    entry_points = "[torch_outboard.drivers]\nmychip = mychip_torch\n"
    (metadata / "entry_points.txt").write_text(entry_points)


def use(installed: Path, *arguments: str, timeout: float = 280, **settings: str) -> str:
    """Runs Python with the driver of a folder of packages, and returns what it printed."""
    paths = [str(installed), str(ROOT)]
    environment = environment_without("OUTBOARD_", "PYTEST_")
    environment |= {k: v for k, v in os.environ.items() if k.startswith("OUTBOARD_CLANG")}
    environment |= {"OUTBOARD_DRIVER": "mychip", "PYTHONPATH": os.pathsep.join(paths), **settings}
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:torch_outboard", *arguments],
        cwd=installed, env=environment, text=True, timeout=timeout * SLOWNESS, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_every_combination_compiles(tmp_path: Path) -> None:
    sources = []
    for i, wanted in enumerate(EVERY):
        sources.append(tmp_path / f"{i}.c")
        sources[-1].write_text(new.files(wanted)["src/mychip_torch/mychip.c"])
    includes = [f"-I{folder}" for folder in building.include_paths()]
    command = ["cc", "-std=c11", "-fsyntax-only", *WARNINGS, *includes, *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.by_turns(16)
@every
def test_it_works_in_every_combination(
    wanted: Options, tmp_path: Path, parts: dict[str, list[str]]
) -> None:
    new.write(new.files(wanted), tmp_path)
    build(wanted, tmp_path, parts)
    printed = dict(re.findall(r"^(.*): (.*)$", use(tmp_path / "installed", "-c", USE), re.M))
    has_kernels = wanted.compiler != "none" and kernels_run_on("host")
    host = "host" if wanted.memory == "shared" else "copied"
    others = "device" if has_kernels else host
    for call in set(printed) - {"training"}:
        assert printed[call] == ("device" if wanted.products and call in BY_LIBRARY else others), (
            call, printed,
        )  # fmt: skip
    assert printed["training"] == others, printed


# ---- What it writes, installed


@pytest.mark.slow
@pytest.mark.timeout(1500 * SLOWNESS)
@pytest.mark.parametrize(
    "wanted",
    [
        Options("mychip", products=True),
        Options("mychip", "shared", "threads", "clang"),
        Options("mychip", "separate", "threads", "opencl", products=True),
        Options("mychip", compiler="clang", python=True),
    ],
    ids=name_of,
)
def test_it_installs_and_passes_its_tests(wanted: Options, tmp_path: Path) -> None:
    project, installed = tmp_path / "project", tmp_path / "installed"
    new.write(new.files(wanted), project)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Not from an index: the requirements are installed already.
    pip += ["--no-index", "--no-deps", "--no-build-isolation", "--target", installed, project]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(pip, env=environment, check=True, timeout=280 * SLOWNESS)
    assert "tensor([1., 1.], device='mychip:0')" in use(
        installed, "-W", "ignore", "-c", "import torch; print(torch.ones(2, device='mychip'))"
    )
    doctor = use(installed, "-m", "torch_outboard", "doctor")
    assert "FAIL" not in doctor, doctor
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(project / "tests")]
    # They check each function of the driver, once and again.
    assert " passed" in use(installed, *tests, timeout=900)

    # With a compiler the kit's kernels multiply where the driver's products do not.
    if wanted.products and wanted.compiler == "none":
        train = str(project / "train.py")
        by_host = use(installed, train, OUTBOARD_MYCHIP_PRODUCTS="host")
        assert not re.search(r"aten::addmm +float32 +device", by_host), by_host
    full = "import torch; torch.ones(2000, device='mychip')"
    for settings, words in (
        ({"OUTBOARD_MYCHIP_MEMORY": "4096"}, "OutOfMemoryError: mychip:0 is out of memory"),
        ({"OUTBOARD_MYCHIP_MEMORY": "all"}, "OUTBOARD_MYCHIP_MEMORY=all is not a whole number"),
        ({"OUTBOARD_MYCHIP_MEMORI": "1"}, "did you mean OUTBOARD_MYCHIP_MEMORY?"),
    ):
        code = f"""
import traceback
try: {full}
except RuntimeError: traceback.print_exc()"""
        assert words in use(installed, "-W", "default", "-c", code, **settings)


def test_a_part_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="no part is called queue; there are common, queues, memo"):
        building.sources("queue")
