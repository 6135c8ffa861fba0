// What a device kernel keeps of the programs it made: a few entries by key, read without a lock.
#pragma once

#include <atomic>
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

  // The entry of `key`; `make()` makes it at the first call. Threads that make it at once all get
  // the one that was there first.
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
  // Among the nodes from `begin` on, before `end`.
  static const Node* search(const Key& key, const Node* begin, const Node* end) {
    for (const Node* node = begin; node != end; node = node->next) {
      if (node->key == key) return node;
    }
    return nullptr;
  }
  std::atomic<Node*> first_{nullptr};
};

}  // namespace outboard
