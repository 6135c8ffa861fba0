// The driver's own communication among the ranks of a group, where it has one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <outboard/driver.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace outboard::distributed {

// What a collective is to the driver: pieces of communication that begin together, of dense tensors
// on the communicator's device.
struct Communications {
  std::vector<ob_communication> all;
  // Enqueued behind them.
  std::function<void()> finish;

  // Each without elements is left out. `source` and `destination` may be undefined.
  void reduce(ob_communication_kind kind, const at::Tensor& source, const at::Tensor& destination,
              const c10d::ReduceOp& op, int root = 0);
  // Of the bytes that each rank has to give or to get.
  void move(ob_communication_kind kind, const at::Tensor& source, const at::Tensor& destination,
            int peer = 0);
  // False once something was added that the contract has no words for.
  bool possible = true;
};

class Communicator {
 public:
  // Every rank of the group calls, and all get one, or none: then `reason` says why. `cpu_backend`
  // and `store` are used to agree.
  static std::shared_ptr<Communicator> create(c10d::Backend& cpu_backend, c10d::Store& store,
                                              std::string* reason);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  c10::DeviceIndex device() const { return device_; }
  // Enqueues on a stream of the device. False if the driver does not do this, on any rank.
  bool enqueue(const c10::Stream& stream, Communications& communications,
               std::chrono::milliseconds timeout) const;
  // Raises the first failure. May be called on a thread of the driver's.
  void check() const;
  void abort() noexcept;

 private:
  Communicator(c10::DeviceIndex device, ob_communicator handle)
      : device_(device), handle_(handle) {}

  const c10::DeviceIndex device_;
  const ob_communicator handle_;
};

}  // namespace outboard::distributed
