"""A maker's kernel in C++: the example builds against what is installed, and wins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import torch_outboard
from tests.support import run_python

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "maker_kernel" / "relu.cpp"


def compile_library(source: Path, output: Path) -> None:
    library = Path(torch_outboard.library_path())
    includes = [*torch_outboard.include_paths(), *cpp_extension.include_paths()]
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(source), "-o", str(output)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    command += [f"-I{path}" for path in includes]
    command += [str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(command, check=True, timeout=280)


@pytest.mark.slow
def test_maker_kernel(tmp_path: Path):
    output = tmp_path / "libmaker_kernel.so"
    compile_library(SOURCE, output)
    printed = run_python(
        """
        import sys
        import torch
        from torch_outboard import fallback

        torch.ops.load_library(sys.argv[1])
        x = torch.tensor([-1.0, 2.0]).to("host").requires_grad_()
        with fallback.report() as report:
            y = torch.relu(x)
            torch.relu(x.detach().double())
        print(y.tolist(), sorted((row.way, str(row.dtype)) for row in report.rows
                                 if row.op == "aten::relu"))
        y.sum().backward()
        print(x.grad.tolist())
        """,
        str(output),
        OUTBOARD_HOST_ACCESS="shared",
    )
    assert printed.splitlines() == [
        "[0.0, 2.0] [('device', 'torch.float32'), ('shared', 'torch.float64')]",
        "[0.0, 1.0]",
    ]


METADATA = """
#include <outboard/runtime.h>
#include <torch/library.h>

struct Tiling final : c10::BackendMeta {
  explicit Tiling(int64_t size_) : size(size_) {}
  const int64_t size;
};

int64_t tiling(const at::Tensor& tensor) {
  const auto* meta = dynamic_cast<Tiling*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr ? meta->size : 0;
}

void set_tiling(const at::Tensor& tensor, int64_t size) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Tiling>(size));
}

void save(const at::Tensor& tensor, std::unordered_map<std::string, bool>& saved) {
  if (tiling(tensor) != 0) saved["tiling:" + std::to_string(tiling(tensor))] = true;
}

void load(const at::Tensor& tensor, std::unordered_map<std::string, bool>& saved) {
  for (const auto& [key, value] : saved) {
    if (key.rfind("tiling:", 0) == 0) set_tiling(tensor, std::stoll(key.substr(7)));
  }
}

TORCH_LIBRARY(tilings, library) {
  library.def("tiling", &tiling);
  library.def("set_tiling", &set_tiling);
  outboard::add_metadata_serialization(&save, &load);
}
"""


@pytest.mark.slow
def test_maker_metadata(tmp_path: Path):
    """A maker's BackendMeta is saved and loaded beside the kit's, and never replaced."""
    source = tmp_path / "metadata.cpp"
    source.write_text(METADATA)
    output = tmp_path / "libmetadata.so"
    compile_library(source, output)
    printed = run_python(
        """
        import io, sys
        import torch
        from torch_outboard import serialization

        torch.ops.load_library(sys.argv[1])

        def again(tensor, **options):
            saved = io.BytesIO()
            torch.save(tensor, saved)
            saved.seek(0)
            return torch.load(saved, **options)

        x = torch.ones(2, device="host")
        torch.ops.tilings.set_tiling(x, 7)
        print(torch.ops.tilings.tiling(again(x)), torch.ops.tilings.tiling(again(x.detach())))
        try:
            serialization.set_tensor_metadata(x, {"a": "b"})
        except RuntimeError as error:
            print("the maker of the device attached" in str(error))
        print(torch.ops.tilings.tiling(x), serialization.tensor_metadata(x))
        y = torch.ones(2, device="host")
        serialization.set_tensor_metadata(y, {"a": "b"})
        print(serialization.tensor_metadata(again(y)), torch.ops.tilings.tiling(again(y)))
        print(again(x, map_location="cpu").tolist())
        """,
        str(output),
    )
    assert printed.splitlines() == ["7 7", "True", "7 {}", "{'a': 'b'} 0", "[1.0, 1.0]"]
