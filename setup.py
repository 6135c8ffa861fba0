"""Builds the native parts of torch_outboard.

Three kinds of shared objects come out of one `pip install`:

* `torch_outboard/lib/libtorch_outboard.so`: runtime and operators. Extensions link against it.
* `torch_outboard/_C.*.so`: the Python binding, thin.
* `torch_outboard/drivers/<name>/libob_<name>.so`: drivers, C or C++ without PyTorch's headers.

The first two work with the minor version of PyTorch that they were built with and no other, so this
file uses the PyTorch that is installed, and what it builds asks for that version.
"""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
PACKAGE = "torch_outboard"


def supported_minors() -> tuple[int, int]:
    """The first and the last minor version of PyTorch 2 that csrc/torch_version.h names."""
    text = (ROOT / "csrc" / "torch_version.h").read_text()
    ends = ("FIRST", "LAST")
    found = [re.search(rf"define OUTBOARD_TORCH_{end}_MINOR (\d+)", text) for end in ends]
    first, last = (int(match.group(1)) for match in found if match)
    return first, last


def torch_problem(version: str | None) -> str | None:
    """Why the package cannot be built with a version of PyTorch, None for one that is not there."""
    first, last = supported_minors()
    if version is None:
        return (
            "torch_outboard is built with the PyTorch that it will run with, and there is none in "
            f"this environment: install PyTorch 2.{first} to 2.{last} (such as `pip install "
            "torch==2.13.0`) and what requirements/build.txt lists, then build with `pip install "
            "--no-build-isolation`, because pip's isolated builds hide the installed packages."
        )
    major, minor = (int(part) for part in version.split(".")[:2])
    if major != 2 or not first <= minor <= last:
        return (
            f"torch_outboard works with PyTorch 2.{first} to 2.{last}, and {version} is installed: "
            "install one of these and build again."
        )
    return None


try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    sys.exit(torch_problem(None))
if problem := torch_problem(torch.__version__):
    sys.exit(problem)

from torch.utils.cpp_extension import (  # noqa: E402
    BuildExtension,
    CppExtension,
    include_paths,
    library_paths,
)

LIBRARY = f"{PACKAGE}.lib.libtorch_outboard"
DRIVERS = ("host", "faults", "validation", "ocl", "riscv")
# What they use of the sources that drivers share.
DRIVER_PARTS = dict.fromkeys(("host", "riscv"), ("compiler", "memory", "queues"))
# Programs of drivers, each of one file that `driver_sources` leaves out.
PROGRAMS = {"ocl/pocl_compiler": "ocl/pocl/compiler_program.c"}
SOURCES_PER_UNIT = 5
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-deprecated-declarations"]


def sources(folder: str) -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc" / folder).rglob("*.cpp"))


def has_distributed() -> bool:
    """Whether this PyTorch has torch.distributed; OUTBOARD_DISTRIBUTED=0 says no."""
    import torch

    return os.environ.get("OUTBOARD_DISTRIBUTED", "1") != "0" and torch.distributed.is_available()


def binding_sources() -> list[str]:
    left_out = set() if has_distributed() else {"csrc/python/bind_distributed.cpp"}
    return [path for path in sources("python") if path not in left_out]


def library_sources() -> list[str]:
    """Everything but the binding."""
    left_out = set() if has_distributed() else set(sources("distributed"))
    return sorted(set(sources(".")) - set(sources("python")) - left_out)


def driver_sources(name: str) -> list[str]:
    """Sources of a driver, without those that drivers share."""
    drivers = ROOT / PACKAGE / "drivers"
    files = [path for path in drivers.glob(f"{name}/**/*") if path.suffix in (".c", ".cpp")]
    programs = {drivers / source for source in PROGRAMS.values()}
    return sorted(str(p.relative_to(ROOT)) for p in files if p not in programs)


def driver_building() -> ModuleType:
    """torch_outboard/drivers/building.py, without the package, which is not built yet."""
    path = ROOT / PACKAGE / "drivers" / "building.py"
    spec = importlib.util.spec_from_file_location("building", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_driver(extension: Extension, target: Path) -> None:
    """Builds a driver of `native_extensions`, with the sources that drivers share."""
    files = [ROOT / source for source in extension.sources]
    parts = DRIVER_PARTS.get(extension.name.rpartition("libob_")[2], ())
    driver_building().build(target, files, parts, extension.include_dirs, WARNINGS)


def drop_compiler_cache() -> None:
    """Reduces CC="ccache gcc" to CC="gcc", and CXX likewise.

    PyTorch puts a compiler cache it finds in front of the compiler itself, and takes the second
    word of the command for an option.
    """
    for variable in ("CC", "CXX"):
        words = os.environ.get(variable, "").split()
        if len(words) > 1 and Path(words[0]).name in ("ccache", "sccache"):
            os.environ[variable] = " ".join(words[1:])


def cpu_stub_candidates() -> list[list[str]]:
    """The defines to try on this processor, the likeliest first.

    A stub picks its kernel among symbols per instruction set, which differ by processor.
    """
    candidates = [["-DOUTBOARD_CPU_STUBS"]]
    if platform.machine() in ("x86_64", "AMD64"):
        instruction_sets = ["-DHAVE_AVX2_CPU_DEFINITION", "-DHAVE_AVX512_CPU_DEFINITION"]
        candidates.insert(0, [*candidates[0], *instruction_sets])
    return candidates


def cpu_stub_flags() -> list[str]:
    """The defines with which a CPU kernel stub of this PyTorch can be called from outside.

    Each candidate is compiled and linked. If none links, or the environment says
    OUTBOARD_CPU_STUBS=0, operators use the path without stubs.
    """
    if os.environ.get("OUTBOARD_CPU_STUBS", "1") == "0":
        return []
    program = """
        #include <ATen/native/BinaryOps.h>
        #include <ATen/TensorIterator.h>
        void probe(at::TensorIteratorBase& i) { at::native::mul_stub(at::kCPU, i); }
        int main() { return 0; }
    """
    return next((flags for flags in cpu_stub_candidates() if links(program, flags)), [])


# How the headers of PyTorch's profiler are read: as PyTorch was compiled, and with a library for
# texts that PyTorch holds, but does not give to others.
KINETO_FLAGS = ["-DUSE_KINETO", "-DFMT_HEADER_ONLY"]


def kineto_include() -> str:
    """Where the headers of PyTorch's profiler lie, if this PyTorch has one."""
    return str(Path(include_paths()[0], "kineto"))


def kineto_flags() -> list[str]:
    """The defines with which activities of the device come into PyTorch's profiler.

    None where this PyTorch was built without Kineto, does not show it, or the environment says
    OUTBOARD_KINETO=0; then its profiler has device times from events around operators.
    """
    if os.environ.get("OUTBOARD_KINETO", "1") == "0":
        return []
    program = """
        #include <libkineto.h>
        void probe(libkineto::ActivityLogger& logger) {
          libkineto::GenericTraceActivity().log(logger);
          libkineto::api().isProfilerRegistered();
          libkineto::processId();
        }
        int main() { return 0; }
    """
    return KINETO_FLAGS if links(program, [*KINETO_FLAGS, f"-I{kineto_include()}"]) else []


def links(program: str, flags: list[str]) -> bool:
    """Whether a program can be compiled and linked with this PyTorch."""
    compiler = os.environ.get("CXX", "c++")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(program)
        command = [*compiler.split(), "-std=c++20", "-O0", *flags]
        command += [str(source), "-o", f"{folder}/a"]
        command += [f"-I{p}" for p in include_paths()] + [f"-L{p}" for p in library_paths()]
        command += ["-ltorch_cpu", "-lc10", "-Wl,--allow-shlib-undefined"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def precompiled_header_flags(
    build: BuildExtension, extension: Extension, header: Path
) -> list[str]:
    """The flags with which the sources of `extension` read `header` in the compiler's own form.

    Half of the time for most files goes into headers of PyTorch. None where the compiler is not
    GCC, refuses, or stands behind a compiler cache, which would not keep such files.
    """
    compiler = os.environ.get("CXX", "c++").split()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    cached = shutil.which("ccache") or shutil.which("sccache")
    if "Free Software Foundation" not in version.stdout or cached:
        return []
    # Everything that the sources will be compiled with, or GCC does not take it.
    command = [*compiler, *build.compiler.compiler_so[1:], *extension.extra_compile_args]
    command += [f"-I{path}" for path in (*extension.include_dirs, *build.compiler.include_dirs)]
    name = extension.name.rpartition(".")[2]
    command += ["-DTORCH_API_INCLUDE_EXTENSION_H", f"-DTORCH_EXTENSION_NAME={name}"]
    folder = Path(build.build_temp, "precompiled", name).absolute()
    text = f'#include "{header}"\n'
    made_by = "\n".join([version.stdout, *command, text, header.read_text()])
    here, compiled, record = (
        folder / "precompiled.h",
        folder / "precompiled.h.gch",
        folder / "made_by",
    )
    if not record.exists() or record.read_text() != made_by:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        here.write_text(text)
        compile_header = [*command, "-x", "c++-header", str(here), "-o", str(compiled)]
        if subprocess.run(compile_header, capture_output=True, check=False).returncode != 0:
            return []
        record.write_text(made_by)
    flags = ["-include", str(here)]
    empty = folder / "empty.cpp"
    empty.write_text("")
    trial = [*command, *flags, "-Werror=invalid-pch", "-fsyntax-only", str(empty)]
    return flags if subprocess.run(trial, capture_output=True, check=False).returncode == 0 else []


def compilation_units(paths: list[str], folder: Path) -> list[str]:
    """Files that include a few sources of one folder each, for the compiler to read in their place.

    To read the headers costs more than most files do: together they take half of the time. What
    has a name in an anonymous namespace has it once in its folder. `make check-versions` compiles
    each source alone, so that it is seen if one lacks a header.
    """
    folders: dict[Path, list[Path]] = {}
    for path in map(Path, paths):
        folders.setdefault(path.parent, []).append(path)
    units = []
    for sources_folder, members in folders.items():
        count = -(-len(members) // SOURCES_PER_UNIT)
        for i in range(count):
            unit = folder / sources_folder / (f"{i + 1}_of_{count}.cpp" if count > 1 else "all.cpp")
            # Below ROOT: __FILE__ is the same in every clone, and a compiler cache serves all.
            text = "".join(f'#include "{member.as_posix()}"\n' for member in members[i::count])
            if not unit.exists() or unit.read_text() != text:  # or it would be compiled again
                unit.parent.mkdir(parents=True, exist_ok=True)
                unit.write_text(text)
            units.append(str(unit))
    return units


class Build(BuildExtension):
    """Builds the library first, links the binding against it, and compiles drivers by hand."""

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.rpartition(".")[2].startswith(("libtorch_outboard", "libob_")):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)

    def finalize_options(self) -> None:
        super().finalize_options()
        # An editable install would build in a temporary folder, and everything again each time.
        made_with = f"{sys.implementation.cache_tag}-torch-{torch.__version__}"
        self.build_temp = os.path.join("build", f"objects-{made_with}")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return ext.export_symbols or []

    def build_extensions(self) -> None:
        # An editable install copies into the source tree and expects the folder to exist.
        (ROOT / PACKAGE / "lib").mkdir(exist_ok=True)
        probed_flags = [*cpu_stub_flags(), *kineto_flags()]
        units = Path(self.build_temp, "units")
        drivers = [e for e in self.extensions if "libob_" in e.name]
        torch_extensions = [e for e in self.extensions if e not in drivers]
        for extension in torch_extensions:
            if extension.name == LIBRARY:
                extension.extra_compile_args += probed_flags
                header = ROOT / "csrc" / "precompiled.h"
                extension.extra_compile_args += precompiled_header_flags(self, extension, header)
            else:
                extension.library_dirs.append(os.path.join(self.build_lib, PACKAGE, "lib"))
            extension.sources = compilation_units(extension.sources, units)
        self.extensions = torch_extensions
        super().build_extensions()
        self.extensions = torch_extensions + drivers
        for extension in drivers:
            self.build_driver(extension)

    def build_driver(self, extension: Extension) -> None:
        target = Path(self.get_ext_fullpath(extension.name))
        if self.inplace:
            target = Path(self.build_lib, self.get_ext_filename(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        build_driver(extension, target)

    def run(self) -> None:
        super().run()
        root = ROOT if self.inplace or self.editable_mode else Path(self.build_lib)
        copy_public_files(root / PACKAGE)
        write_headers(root / PACKAGE / "dialects" / "clang")
        for target, source in PROGRAMS.items():
            build_program(ROOT / PACKAGE / "drivers" / source, root / PACKAGE / "drivers" / target)
        # Read before the native part is loaded, which another version must not try.
        (root / PACKAGE / "lib" / "torch_version.txt").write_text(f"{torch_minor()}\n")


class SourceDistribution(sdist):
    """Asks for any supported PyTorch: which one it will be is decided where it is built."""

    def run(self) -> None:
        first, last = supported_minors()
        wanted = requirements(f"torch>=2.{first},<2.{last + 1}")
        self.distribution.install_requires = self.distribution.metadata.install_requires = wanted
        super().run()


def torch_minor() -> str:
    """Major and minor version of the PyTorch that is installed."""
    return ".".join(torch.__version__.split(".")[:2])


def requirements(pytorch: str) -> list[str]:
    """What the installed package needs, with this requirement for PyTorch."""
    lines = (ROOT / "requirements" / "run.txt").read_text().splitlines()
    return [pytorch, *(line for line in lines if line and not line.startswith("#"))]


def build_program(source: Path, target: Path) -> None:
    """Builds a program of a driver."""
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-std=c11", "-O2", "-g", *WARNINGS, "-rdynamic"]
    subprocess.run([*compiler, *flags, str(source), "-o", str(target), "-ldl"], check=True)


def copy_public_files(package: Path) -> None:
    """Puts the public headers and the CMake config where `include_paths()` says they are."""
    shutil.copytree(
        ROOT / "csrc" / "include" / "outboard", package / "include" / "outboard", dirs_exist_ok=True
    )
    shutil.copytree(ROOT / "csrc" / "cmake", package / "share" / "cmake", dirs_exist_ok=True)


def write_headers(dialect: Path) -> None:
    """Writes the headers of the dialect for clang that are only names, or only numbers."""
    for header in ("values/conversion_names.h", "mathematics/coefficients.h"):
        target, tool = dialect / header, ROOT / "tools" / f"{Path(header).stem}.py"
        if target.exists() and target.stat().st_mtime > tool.stat().st_mtime:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(subprocess.check_output([sys.executable, str(tool)]))


def native_extensions() -> list[Extension]:
    include = [str(ROOT / "csrc" / "include"), str(ROOT / "csrc"), str(ROOT)]
    flags = ["-std=c++20", "-O2", "-fno-math-errno", "-g0", "-fvisibility=hidden", *WARNINGS]
    library = CppExtension(
        LIBRARY,
        library_sources(),
        # Kernel texts that C++ compiles, too, stand below both.
        include_dirs=[*include, str(ROOT / PACKAGE / "kernels"), kineto_include()],
        extra_compile_args=[*flags, "-DOUTBOARD_BUILDING", "-fopenmp"],
        extra_link_args=["-fopenmp", "-Wl,-z,defs", "-ldl", "-lpthread"],
        py_limited_api=False,
    )
    library.libraries = [name for name in library.libraries if "python" not in name]
    binding = CppExtension(
        f"{PACKAGE}._C",
        binding_sources(),
        include_dirs=include,
        libraries=["torch_outboard"],
        extra_compile_args=[*flags, *([] if has_distributed() else ["-DOUTBOARD_NO_DISTRIBUTED"])],
        extra_link_args=["-Wl,-rpath,$ORIGIN/lib"],
    )
    drivers = [
        Extension(
            f"{PACKAGE}.drivers.{name}.libob_{name}",
            driver_sources(name),
            include_dirs=[str(ROOT / "csrc" / "include")],
        )
        for name in DRIVERS
    ]
    return [library, binding, *drivers]


# tests/compile_versions.py imports this file for its flags.
if __name__ == "__main__":
    drop_compiler_cache()
    setup(
        ext_modules=native_extensions(),
        install_requires=requirements(f"torch=={torch_minor()}.*"),
        cmdclass={"build_ext": Build, "sdist": SourceDistribution},
    )
