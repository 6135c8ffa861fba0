#include "distributed/communicator.h"

#include <ATen/Functions.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/streams/stream.h"

namespace outboard::distributed {
namespace {

constexpr const char* kSetting = "OUTBOARD_COMMUNICATION";

// The bit of a dtype that the contract reduces; 0 for others.
uint32_t bit_of(at::ScalarType dtype) {
  return dtype == at::kBool || c10::isFloat8Type(dtype) ? 0 : contract_dtype(dtype);
}

std::optional<ob_reduction> reduction_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return OB_REDUCTION_SUM;
    case c10d::ReduceOp::PRODUCT:
      return OB_REDUCTION_PRODUCT;
    case c10d::ReduceOp::MIN:
      return OB_REDUCTION_MINIMUM;
    case c10d::ReduceOp::MAX:
      return OB_REDUCTION_MAXIMUM;
    case c10d::ReduceOp::AVG:
      return OB_REDUCTION_AVERAGE;
    default:
      return std::nullopt;
  }
}

ob_address address_of(const at::Tensor& tensor) {
  return tensor.defined() ? reinterpret_cast<ob_address>(tensor.data_ptr()) : 0;
}

// Elements of one rank: the smaller of the two operands.
int64_t elements_of(ob_communication_kind kind, const at::Tensor& source,
                    const at::Tensor& destination) {
  if (!source.defined()) return destination.numel();
  return kind == OB_COMMUNICATION_REDUCE_SCATTER ? destination.numel() : source.numel();
}

ob_communication described(ob_communication_kind kind, const at::Tensor& source,
                           const at::Tensor& destination, int peer, int64_t item) {
  ob_communication wanted = {};
  wanted.struct_size = sizeof(wanted);
  wanted.kind = kind;
  wanted.peer = static_cast<uint32_t>(peer);
  wanted.elements = static_cast<uint64_t>(elements_of(kind, source, destination) * item);
  wanted.source = address_of(source);
  wanted.destination = address_of(destination);
  return wanted;
}

}  // namespace

void Communications::reduce(ob_communication_kind kind, const at::Tensor& source,
                            const at::Tensor& destination, const c10d::ReduceOp& op, int root) {
  at::ScalarType dtype = source.scalar_type();
  // A sum of complex numbers is a sum of their parts.
  const bool complex = at::isComplexType(dtype);
  if (complex) dtype = at::toRealValueType(dtype);
  const std::optional<ob_reduction> reduction = reduction_of(op);
  if (!reduction.has_value() || bit_of(dtype) == 0) {
    possible = false;
    return;
  }
  ob_communication wanted = described(kind, source, destination, root, complex ? 2 : 1);
  wanted.reduction = *reduction;
  wanted.dtype = bit_of(dtype);
  if (wanted.elements > 0) all.push_back(wanted);
}

void Communications::move(ob_communication_kind kind, const at::Tensor& source,
                          const at::Tensor& destination, int peer) {
  const at::Tensor& tensor = source.defined() ? source : destination;
  ob_communication wanted = described(kind, source, destination, peer, tensor.element_size());
  wanted.dtype = OB_DTYPE_UINT8;
  if (wanted.elements > 0) all.push_back(wanted);
}

std::shared_ptr<Communicator> Communicator::create(c10d::Backend& cpu_backend, c10d::Store& store,
                                                   std::string* reason) {
  constexpr const char* kKey = "driver's communicator";
  const char* setting = std::getenv(kSetting);
  const std::string_view wanted = setting != nullptr ? setting : "auto";
  *reason = "";
  std::shared_ptr<Communicator> made;
  ob_communicator_id id = {};
  id.struct_size = sizeof(id);
  // All ranks know the result of rank 0 before any of them creates a communicator.
  if (wanted == "gloo") {
    *reason = c10::str(kSetting, "=gloo");
  } else if (device_count() == 0) {
    *reason = "there is no device";
  } else if (driver().communicate == nullptr) {
    *reason = c10::str("driver '", driver().name, "' has no `communicate`");
  }
  if (cpu_backend.getRank() == 0) {
    std::vector<uint8_t> message;
    if (reason->empty()) {
      const ob_status status = OB_ASK(communicator_id, &id);
      if (status == OB_OK) {
        const std::string_view name = driver().name;
        message.assign(id.data, id.data + sizeof(id.data));
        message.insert(message.end(), name.begin(), name.end());
      } else {
        *reason = driver_message(driver());
      }
    }
    store.set(kKey, message);
  } else if (reason->empty()) {
    const std::vector<uint8_t> message = store.get(kKey);
    if (message.size() < sizeof(id.data)) {
      *reason = "the driver of rank 0 cannot communicate";
    } else if (std::string(message.begin() + sizeof(id.data), message.end()) != driver().name) {
      *reason = "rank 0 has another driver";
    } else {
      std::memcpy(id.data, message.data(), sizeof(id.data));
    }
  }
  if (reason->empty()) {
    ob_communicator_description description = {};
    description.struct_size = sizeof(description);
    description.id = &id;
    description.device = current_device();
    description.rank = static_cast<uint32_t>(cpu_backend.getRank());
    description.ranks = static_cast<uint32_t>(cpu_backend.getSize());
    ob_communicator handle = nullptr;
    const ob_status status = OB_ASK(communicator_create, &description, &handle);
    if (status == OB_OK) {
      made.reset(new Communicator(static_cast<c10::DeviceIndex>(description.device), handle));
    } else {
      *reason = driver_message(driver());
    }
  }
  std::vector<at::Tensor> all = {at::full({1}, made != nullptr ? 1 : 0, at::kInt)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MIN;
  cpu_backend.allreduce(all, options)->wait();
  if (all[0].item<int>() == 0) {
    if (reason->empty()) *reason = "the driver of another rank cannot communicate";
    made.reset();
  }
  TORCH_CHECK(made != nullptr || wanted != "driver", kSetting,
              "=driver is set, and not possible: ", *reason, "; set it to auto");
  return made;
}

Communicator::~Communicator() {
  if (usable_driver() == nullptr) return;
  defer_status(OB_ASK(communicator_destroy, handle_), "communicator_destroy");
}

bool Communicator::enqueue(const c10::Stream& stream, Communications& communications,
                           std::chrono::milliseconds timeout) const {
  if (!communications.possible || communications.all.empty()) return false;
  StreamState& state = stream_state(stream);
  const bool grouped = communications.all.size() > 1;
  if (grouped) OB_CALL(communication_begin);
  ob_status status = OB_OK;
  for (ob_communication& wanted : communications.all) {
    wanted.timeout = timeout.count() > 0 ? static_cast<uint64_t>(timeout.count()) : 0;
    status = OB_ASK(communicate, state.queue, handle_, &wanted);
    if (status != OB_OK) break;
  }
  // communication_end returns the status of a failed call, without its message.
  std::string cause;
  if (status != OB_OK) cause = driver_message(driver());
  if (grouped) {
    const ob_status end = OB_ASK(communication_end);
    if (status == OB_OK) check_status(status = end, "communication_end");
  }
  if (status == OB_UNSUPPORTED) return false;
  TORCH_CHECK(status == OB_OK, "driver '", driver().name, "' failed in `communicate`: ", cause);
  state.mark_submitted();
  if (communications.finish) communications.finish();
  return true;
}

void Communicator::check() const {
  const ob_driver& table = driver();
  if (table.communicator_error(table.context, handle_) == OB_OK) return;
  TORCH_CHECK_WITH(DistBackendError, false, driver_message(table));
}

void Communicator::abort() noexcept {
  if (usable_driver() == nullptr) return;
  defer_status(OB_ASK(communicator_abort, handle_), "communicator_abort");
}

}  // namespace outboard::distributed
