#include "distributed/collective_work.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_failure.h"
#include "tensors/host_view.h"

namespace outboard::distributed {

HostTensor::HostTensor(const at::Tensor& device, bool read)
    : device_(device),
      aliases_(device.is_contiguous() && !device.is_conj() && !device.is_neg() &&
               shares_host_memory(device.device().index())) {
  if (aliases_) {
    host_ = host_tensor(device, Access::kWrite);
    return;
  }
  host_ = at::empty(device.sizes(), device.options().device(at::kCPU).pinned_memory(true));
  if (read) host_.copy_(device, /*non_blocking=*/true);
}

at::Tensor HostTensor::bytes() const { return host_.reshape({-1}).view(at::kByte); }

void HostTensor::write_back() const {
  if (!aliases_) device_.copy_(host_, /*non_blocking=*/true);
}

std::vector<HostTensor> on_host(const std::vector<at::Tensor>& device, bool read) {
  std::vector<HostTensor> tensors;
  tensors.reserve(device.size());
  for (const at::Tensor& tensor : device) tensors.emplace_back(tensor, read);
  return tensors;
}

std::vector<at::Tensor> bytes_of(const std::vector<HostTensor>& tensors) {
  std::vector<at::Tensor> bytes;
  for (const HostTensor& tensor : tensors) bytes.push_back(tensor.bytes());
  return bytes;
}

void write_back(const std::vector<HostTensor>& tensors) {
  for (const HostTensor& tensor : tensors) tensor.write_back();
}

namespace {

thread_local HostPart* t_running = nullptr;

}  // namespace

std::shared_ptr<HostPart> HostPart::running() {
  return t_running != nullptr ? t_running->shared_from_this() : nullptr;
}

std::exception_ptr described(std::exception_ptr failure, const std::string& what) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    // Gloo's messages have several lines, with a stack.
    const std::string_view cause = error.what();
    const std::string message = c10::str(what, " failed: ", cause.substr(0, cause.find('\n')));
    return std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, uint32_t{__LINE__}}, message));
  } catch (...) {
    return failure;
  }
}

void HostPart::run() noexcept {
  if (!done()) {
    std::exception_ptr failure;
    t_running = this;
    try {
      body_();
    } catch (...) {
      failure = std::current_exception();
    }
    t_running = nullptr;
    finish(failure);
  }
  over_ = true;
}

void HostPart::finish(std::exception_ptr failure) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (done_) return;
  done_ = true;
  failure_ = std::move(failure);
  changed_.notify_all();
}

bool HostPart::done() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

std::exception_ptr HostPart::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

bool HostPart::wait(std::chrono::milliseconds timeout) const {
  std::unique_lock<std::mutex> lock(mutex_);
  if (timeout <= std::chrono::milliseconds(0)) {
    changed_.wait(lock, [this] { return done_; });
    return true;
  }
  return changed_.wait_for(lock, timeout, [this] { return done_; });
}

CollectiveWork::CollectiveWork(int rank, c10d::OpType type,
                               std::vector<std::shared_ptr<HostPart>> parts,
                               const std::vector<c10::Stream>& streams,
                               std::vector<at::Tensor> outputs)
    : Work(rank, type), parts_(std::move(parts)), outputs_(std::move(outputs)) {
  std::vector<c10::Device> devices;
  for (const c10::Stream& stream : streams) {
    ends_.emplace_back();
    ends_.back().record(stream);
    devices.push_back(stream.device());
  }
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     devices);
  const c10::StreamGuard guard(streams.back());
  // Its value may be used on streams that wait for the future.
  future_->markCompleted(at::IValue(outputs_));
}

bool CollectiveWork::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->done(); }) &&
         std::all_of(ends_.begin(), ends_.end(), [](const Event& end) { return end.query(); });
}

bool CollectiveWork::isSuccess() const { return exception() == nullptr; }

std::exception_ptr CollectiveWork::exception() const {
  for (const auto& part : parts_) {
    if (std::exception_ptr failure = part->failure()) return failure;
  }
  return nullptr;
}

void CollectiveWork::raise_failure() const {
  if (std::exception_ptr failure = exception()) {
    forget_failure(failure);
    std::rethrow_exception(failure);
  }
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  if (timeout != kNoTimeout) {
    for (const auto& part : parts_) {
      TORCH_CHECK_WITH(DistBackendError, part->wait(timeout), c10d::opTypeToString(opType_),
                       " on rank ", rank_, " is not done after ", timeout.count(), " ms");
    }
  }
  // The source rank is read next, with the interpreter lock held.
  if (opType_ == c10d::OpType::RECVANYSOURCE) {
    for (const auto& part : parts_) part->wait(kNoTimeout);
  }
  synchronize();
  return true;
}

void CollectiveWork::synchronize() {
  raise_failure();
  for (const Event& end : ends_) {
    end.block(current_stream(end.device()));
  }
}

int CollectiveWork::sourceRank() const {
  TORCH_CHECK(source != nullptr, "only a receive from any rank has a source rank");
  for (const auto& part : parts_) part->wait(kNoTimeout);
  raise_failure();
  return *source;
}

}  // namespace outboard::distributed
