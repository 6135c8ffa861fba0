// What a device kernel keeps of the programs it made: a few entries by key, read without a lock.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace outboard {

// `Key` says what makes kernels differ (device, dtypes, layout class ...) and can be compared with
// ==. Entries stay where they are, also when the table dies: kernels are used until the process
// ends.
template <class Key, class Entry>
class KernelTable {
 public:
  KernelTable() = default;
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  // The entry of `key`; `make()` makes it at the first call. Several threads may make it at once;
  // then there are two equal entries, which does no harm.
  template <class Make>
  const Entry& find(const Key& key, Make&& make) {
    for (const Node* node = first_.load(std::memory_order_acquire); node != nullptr;
         node = node->next) {
      if (node->key == key) return node->entry;
    }
    Node* node = new Node{key, std::forward<Make>(make)(), first_.load(std::memory_order_relaxed)};
    while (!first_.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
    }
    return node->entry;
  }

 private:
  struct Node {
    const Key key;
    const Entry entry;
    Node* next;
  };
  std::atomic<Node*> first_{nullptr};
};

}  // namespace outboard
