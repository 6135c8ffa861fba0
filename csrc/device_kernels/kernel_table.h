// Cache of programs of a device kernel: few entries by key, lookups without a lock.
#pragma once

#include <atomic>
#include <utility>

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

}  // namespace outboard
