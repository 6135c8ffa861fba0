"""A vendor's BackendMeta, which the kit saves and loads beside its own."""

from pathlib import Path

import pytest

from tests.support import compile_library, run_python

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
def test_vendor_metadata(tmp_path: Path):
    """A vendor's BackendMeta is saved and loaded beside the kit's, and never replaced."""
    source = tmp_path / "metadata.cpp"
    source.write_text(METADATA)
    output = tmp_path / "libmetadata.so"
    compile_library(source, output)
    printed = run_python(
        """
        import io, sys
        import torch
        from torch_outboard.device import serialization

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
            print("the vendor of the device attached" in str(error))
        print(torch.ops.tilings.tiling(x), serialization.tensor_metadata(x))
        y = torch.ones(2, device="host")
        serialization.set_tensor_metadata(y, {"a": "b"})
        print(serialization.tensor_metadata(again(y)), torch.ops.tilings.tiling(again(y)))
        print(again(x, map_location="cpu").tolist())
        """,
        str(output),
    )
    assert printed.splitlines() == ["7 7", "True", "7 {}", "{'a': 'b'} 0", "[1.0, 1.0]"]
