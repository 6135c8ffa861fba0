// The driver's own communication among the ranks of a group, if it has one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <outboard/driver.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace outboard::distributed {

// A collective for the driver: communications that begin together, of dense tensors on the
// communicator's device.
struct Communications {
  std::vector<ob_communication> all;
  // Enqueued after them.
  std::function<void()> finish;

  // Empty ones are skipped. `source` and `destination` may be undefined.
  void reduce(ob_communication_kind kind, const at::Tensor& source, const at::Tensor& destination,
              const c10d::ReduceOp& op, int root = 0);
  // Moves the bytes that each rank sends or receives.
  void move(ob_communication_kind kind, const at::Tensor& source, const at::Tensor& destination,
            int peer = 0);
  // False once a communication was added that the contract cannot express.
  bool possible = true;
};

class Communicator {
 public:
  // Called by every rank of the group. All get a communicator or none; `reason` then says why. The
  // ranks agree by `cpu_backend` and `store`.
  static std::shared_ptr<Communicator> create(c10d::Backend& cpu_backend, c10d::Store& store,
                                              std::string* reason);
  ~Communicator();
  C10_DISABLE_COPY_AND_ASSIGN(Communicator);

  c10::DeviceIndex device() const { return device_; }
  // Enqueues on a stream of the device. False, on all ranks alike, if the driver declines.
  bool enqueue(const c10::Stream& stream, Communications& communications,
               std::chrono::milliseconds timeout) const;
  // Raises the first failure. May be called on a thread of the driver.
  void check() const;
  void abort() noexcept;

 private:
  Communicator(c10::DeviceIndex device, ob_communicator handle)
      : device_(device), handle_(handle) {}

  const c10::DeviceIndex device_;
  const ob_communicator handle_;
};

// One of torch.distributed's collectives as calls of the driver contract, of dense tensors on the
// communicator's device.
using DriverCall =
    std::function<void(const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& outputs, Communications& wanted)>;

}  // namespace outboard::distributed
