// Operators that handle conj and neg bits by themselves.
//
// PyTorch materializes such tensors before it calls a kernel, with clone, which copies, which would
// be materialized again. A stream has to be recorded on the memory itself, not on a copy.
#include <torch/library.h>

namespace {

void fall_through(torch::Library& library) {
  for (const char* name : {"_copy_from", "_copy_from_and_resize", "record_stream"}) {
    library.impl(name, torch::CppFunction::makeFallthrough());
  }
}

TORCH_LIBRARY_IMPL(aten, Conjugate, library) { fall_through(library); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { fall_through(library); }

}  // namespace
