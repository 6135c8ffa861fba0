// Devices, streams and events in C++: PyTorch's generic classes reach the device through its guard;
// the code does not depend on torch_outboard.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <exception>
#include <thread>
#include <vector>

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(kType); }

// Two streams of one device: the second waits only for the first. Returns the sum
// of (1 + 1) * 2 over `count` numbers, and checks that this thread has its device and stream again.
double produce_and_consume(c10::DeviceIndex device, int64_t count) {
  const c10::Device place(kType, device);
  const c10::Device device_before = guard().getDevice();
  const c10::Stream stream_before = guard().getStream(place);
  const c10::Stream producer = guard().getNewStream(place);
  const c10::Stream consumer = guard().getStreamFromGlobalPool(place, /*isHighPriority=*/true);
  c10::Event ready(kType);
  double result = 0;
  {
    const c10::DeviceGuard on_device(place);
    at::Tensor numbers;
    {
      const c10::StreamGuard on_stream(producer);
      numbers = at::ones({count}, at::TensorOptions().device(kType)).add_(1);
      ready.record(producer);
    }
    {
      const c10::StreamGuard on_stream(consumer);
      ready.block(consumer);
      // The memory belongs to the first stream, and must not be reused before the second is done.
      guard().recordDataPtrOnStream(numbers.storage().data_ptr(), consumer);
      result = numbers.mul_(2).sum().item<double>();
    }
  }
  ready.synchronize();
  TORCH_CHECK(ready.query() && producer.query(), "an event that was waited for has not happened");
  TORCH_CHECK(guard().getDevice() == device_before, "a guard left another device behind");
  TORCH_CHECK(guard().getStream(place) == stream_before, "a guard left another stream behind");
  return result;
}

// The same in many threads at once, each with its own current device and streams.
std::vector<double> in_threads(int64_t threads, int64_t count) {
  const int64_t devices = guard().deviceCount();
  std::vector<double> results(threads);
  std::vector<std::exception_ptr> errors(threads);
  std::vector<std::thread> workers;
  for (int64_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      try {
        results[i] = produce_and_consume(static_cast<c10::DeviceIndex>(i % devices), count);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return results;
}

// Milliseconds between two events around some work.
double time_work(int64_t count) {
  const c10::Stream stream = guard().getStream(guard().getDevice());
  c10::Event start(kType, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(kType, c10::EventFlag::BACKEND_DEFAULT);
  start.record(stream);
  at::Tensor numbers = at::ones({count}, at::TensorOptions().device(kType));
  for (int i = 0; i < 10; ++i) numbers = numbers.add(1);
  end.record(stream);
  end.synchronize();
  return start.elapsedTime(end);
}

TORCH_LIBRARY(streams_example, library) {
  library.def("in_threads(int threads, int count) -> float[]", &in_threads);
  library.def("time_work(int count) -> float", &time_work);
}

}  // namespace
