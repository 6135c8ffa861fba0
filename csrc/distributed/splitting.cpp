// Subgroups: `split_group`, used by device meshes if a device is bound.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "distributed/process_group.h"

namespace outboard::distributed {

c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  // A separate prefix: the CPU backend of the subgroup has the same store.
  const auto own = c10::make_intrusive<c10d::PrefixStore>("outboard", store);
  auto cpu_backend = cpu_backend_->split(own, ranks, options);
  if (cpu_backend == nullptr) return nullptr;  // this rank is not in `ranks`
  return c10::make_intrusive<ProcessGroup>(std::move(cpu_backend), *own, options->group_name,
                                           options->timeout);
}

}  // namespace outboard::distributed
