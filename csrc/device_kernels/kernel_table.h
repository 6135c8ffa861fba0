// Caches of kernels: few entries by key, lookups without a lock.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <string>
#include <utility>

#include "runtime/programs/launch.h"

namespace outboard {

// `Key`: everything that distinguishes kernels (device, dtypes, layout class ...), comparable by
// ==. Entries never move and outlive the table, because kernels are used until process exit.
template <class Key, class Entry>
class KernelTable {
 public:
  KernelTable() = default;
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  // The entry of `key`, made by `make()` at the first call. If threads make it at once, all get the
  // first one inserted.
  template <class Make>
  const Entry& find(const Key& key, Make&& make) {
    Node* seen = first_.load(std::memory_order_acquire);
    if (const Node* known = search(key, seen, nullptr)) return known->entry;
    Node* made = new Node{key, std::forward<Make>(make)(), seen};
    while (!first_.compare_exchange_weak(made->next, made, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
      if (const Node* known = search(key, made->next, seen)) {
        delete made;
        return known->entry;
      }
      seen = made->next;
    }
    return made->entry;
  }

 private:
  struct Node {
    const Key key;
    const Entry entry;
    Node* next;
  };
  // Searches the nodes [begin, end).
  static const Node* search(const Key& key, const Node* begin, const Node* end) {
    for (const Node* node = begin; node != end; node = node->next) {
      if (node->key == key) return node;
    }
    return nullptr;
  }
  std::atomic<Node*> first_{nullptr};
};

// The kernels of a program by name. Never destroyed.
class ProgramKernels {
 public:
  ProgramKernels(c10::DeviceIndex device, std::string source, std::string options)
      : device_(device), source_(std::move(source)), options_(std::move(options)) {}

  Kernel& operator()(const std::string& name) const {
    return *kernels_.find(name, [&] { return &find_kernel(device_, source_, name, options_); });
  }
  // Launches work-items in groups of `local` on the current stream.
  void launch(const std::string& name, uint64_t items, uint64_t local,
              const LaunchArguments& arguments) const {
    outboard::launch(current_stream_state(device_), (*this)(name), Grid::linear(items, local),
                     arguments);
  }

 private:
  const c10::DeviceIndex device_;
  const std::string source_, options_;
  mutable KernelTable<std::string, Kernel*> kernels_;
};

}  // namespace outboard
