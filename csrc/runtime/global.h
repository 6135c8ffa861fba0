// Global objects, one per type. They are never destroyed: kernels, deleters of tensors and threads
// use them until the process exits.
#pragma once

#include <mutex>

namespace outboard {

template <class T>
T& global() {
  static T* instance = new T;
  return *instance;
}

// Access to the global T of all threads, which is locked as long as this object exists.
template <class T, class Mutex = std::mutex>
class Locked {
 public:
  T* operator->() const noexcept { return &guarded_.value; }
  T& operator*() const noexcept { return guarded_.value; }
  // For waits, which release it meanwhile.
  std::unique_lock<Mutex>& lock() noexcept { return lock_; }

 private:
  struct Guarded {
    Mutex mutex;
    T value{};
  };

  Guarded& guarded_ = global<Guarded>();
  std::unique_lock<Mutex> lock_{guarded_.mutex};
};

}  // namespace outboard
