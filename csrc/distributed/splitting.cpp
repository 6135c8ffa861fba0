// Groups of some ranks of a group: `split_group`, which meshes use where a device is bound.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "distributed/process_group.h"

namespace outboard::distributed {

c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  // The group's backend for CPU has the same store.
  const auto own = c10::make_intrusive<c10d::PrefixStore>("outboard", store);
  auto cpu_backend = cpu_backend_->split(own, ranks, options);
  if (cpu_backend == nullptr) return nullptr;  // not of these ranks
  return c10::make_intrusive<ProcessGroup>(std::move(cpu_backend), *own, options->group_name,
                                           options->timeout);
}

}  // namespace outboard::distributed
