#include "runtime/hooks.h"

#include <array>
#include <atomic>

#include "runtime/driver/device.h"

namespace outboard {

static std::array<std::atomic<int>, kMaxDevices> g_live_graphs = {};

int live_graphs(c10::DeviceIndex device) noexcept { return g_live_graphs[device].load(); }

}  // namespace outboard

#if __has_include(<ATen/core/GraphImplInterface.h>)

#include <ATen/core/GraphImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/caching/device_cache.h"
#include "runtime/programs/device_assert.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

// All capture modes behave alike: a call that would wait for captured work raises in its thread,
// and other threads may use other streams.
class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs&) {}
  ~Graph() override {
    if (usable_driver() == nullptr) return;
    try {
      if (capturing_ != nullptr) stop_capturing();
      release();
    } catch (const std::exception&) {
      // Errors of replays are deferred; a lost device keeps its resources.
    }
  }

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode) override {
    check_fork();
    const ob_driver& table = driver();
    TORCH_CHECK_NOT_IMPLEMENTED(table.graph_begin != nullptr, "driver '", table.name,
                                "' cannot capture graphs; run the work without one");
    TORCH_CHECK(capturing_ == nullptr && graph_ == nullptr,
                "this graph has captured work already; call reset() first, or make another one");
    StreamState& stream = current_stream_state(current_device());
    synchronize_stream(stream);
    // Now, because a capturing queue cannot read assert flags.
    raise_deferred();
    pool_ = pool == at::MempoolId_t{0, 0} ? caching_allocator()->create_pool() : pool;
    caching_allocator()->cache(stream.device).begin_allocate_to_pool(pool_);
    device_ = stream.device;
    ++g_live_graphs[device_];
    const ob_status status = table.graph_begin(table.context, stream.queue);
    if (status != OB_OK) {
      caching_allocator()->cache(device_).end_allocate_to_pool(pool_);
      release_pool();
      throw_status(status, "graph_begin");
    }
    stream.begin_capture();
    capturing_ = &stream;
  }

  void capture_end() override {
    check_fork();
    TORCH_CHECK(capturing_ != nullptr, "this graph is not capturing; begin with capture_begin()");
    check_status(stop_capturing(), "graph_end");
  }

  // A driver's graph can be launched as soon as it was captured.
  void instantiate() override { check_captured(); }

  void replay() override {
    check_fork();
    check_captured();
    StreamState& stream = current_stream_state(device_);
    RecordedWork record(stream, ActivityKind::kGraph, "graph_launch", "graph");
    OB_CALL(graph_launch, stream.queue, graph_);
    stream.mark_submitted();
    record.enqueued();
    if (std::find(replayed_on_.begin(), replayed_on_.end(), &stream) == replayed_on_.end()) {
      replayed_on_.push_back(&stream);
    }
    expect_asserts(stream, asserts_);
  }

  void reset() override {
    if (usable_driver() == nullptr) return;
    TORCH_CHECK(capturing_ == nullptr, "this graph is capturing; call capture_end() first");
    release();
    raise_deferred();
  }

  at::MempoolId_t pool() const override {
    TORCH_CHECK(device_ >= 0, "this graph has no memory pool before it captures");
    return pool_;
  }

  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "driver '", driver().name,
                                "' cannot print a graph; use a profiler to see what it runs");
  }

 private:
  void check_captured() const {
    TORCH_CHECK(graph_ != nullptr,
                "this graph has captured nothing; capture with capture_begin() and capture_end()");
  }

  ob_status stop_capturing() {
    StreamState& stream = *std::exchange(capturing_, nullptr);
    const ob_status status = OB_ASK(graph_end, stream.queue, &graph_);
    asserts_ = take_captured_asserts(stream);
    stream.end_capture();
    caching_allocator()->cache(device_).end_allocate_to_pool(pool_);
    return status;
  }

  void release() {
    std::exception_ptr failure;
    ob_status status = OB_OK;
    if (graph_ != nullptr) {
      // Replays under way use the graph. A capturing stream was idle when it began to capture.
      for (StreamState* stream : replayed_on_) {
        try {
          if (!stream->capturing.load(std::memory_order_acquire)) synchronize_stream(*stream);
        } catch (const c10::AcceleratorError&) {
          failure = std::current_exception();  // the wait has ended, or the device is lost
        }
      }
      status = OB_ASK(graph_release, std::exchange(graph_, nullptr));
    }
    replayed_on_.clear();
    asserts_.clear();
    release_pool();
    if (failure != nullptr) std::rethrow_exception(failure);
    check_status(status, "graph_release");
  }

  void release_pool() {
    if (device_ < 0) return;
    --g_live_graphs[device_];
    caching_allocator()->cache(std::exchange(device_, c10::DeviceIndex{-1})).release_pool(pool_);
  }

  ob_graph graph_ = nullptr;
  StreamState* capturing_ = nullptr;
  std::vector<StreamState*> replayed_on_;
  std::vector<DeviceAssert*> asserts_;  // of the captured kernels
  c10::DeviceIndex device_ = -1;        // of the pool
  at::MempoolId_t pool_ = {0, 0};
};

}  // namespace

void register_graphs() {
  // The registry looks graphs up by the device's current name.
  const std::string name = c10::DeviceTypeName(c10::DeviceType::PrivateUse1, /*lower_case=*/false);
  if (at::GraphImplRegistry()->Has(name)) return;
  at::GraphImplRegistry()->Register(
      name, [](at::GraphImplArgs arguments) -> std::unique_ptr<at::GraphImplInterface> {
        return std::make_unique<Graph>(arguments);
      });
}

}  // namespace outboard

#else

namespace outboard {
void register_graphs() {}
}  // namespace outboard

#endif
