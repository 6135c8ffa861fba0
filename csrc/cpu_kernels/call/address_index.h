// Finds elements of a list by an address that each of them has.
#pragma once

#include <c10/util/flat_hash_map.h>

#include <cstddef>

namespace outboard {

// Of a list that only grows, and whose elements keep their addresses. `address_of` gives that of an
// element; the first of several with the same one is found. A short list is scanned; lists of
// tensors have thousands.
template <auto address_of>
class AddressIndex {
 public:
  // Null if there is none.
  template <class List>
  auto find(List& list, const void* address) -> decltype(&list[0]) {
    if (list.size() <= kScanned) {
      for (auto& element : list) {
        if (address_of(element) == address) return &element;
      }
      return nullptr;
    }
    for (; known_ < list.size(); ++known_) places_.emplace(address_of(list[known_]), known_);
    const auto found = places_.find(address);
    return found != places_.end() ? &list[found->second] : nullptr;
  }

 private:
  static constexpr size_t kScanned = 16;

  size_t known_ = 0;  // elements that are in `places_`
  ska::flat_hash_map<const void*, size_t> places_;
};

}  // namespace outboard
