#include "python/python_function.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/driver/driver_table.h"

namespace py = pybind11;

namespace outboard {
namespace {

constexpr std::chrono::seconds kExitPatience(5);  // for calls under way at exit

std::atomic<int> g_calls{0};
std::atomic<bool> g_stopped{false};
std::atomic<std::thread::id> g_stopped_by{};

// A call of the interpreter from a thread that may not have its lock.
class InterpreterUse {
 public:
  // Counts before it reads g_stopped: either this call sees the end, or the end sees this call.
  InterpreterUse() noexcept {
    g_calls.fetch_add(1);
    const bool ends = g_stopped.load() && g_stopped_by.load() != std::this_thread::get_id();
    possible_ = !ends && Py_IsInitialized() != 0;
  }
  ~InterpreterUse() { g_calls.fetch_sub(1); }
  C10_DISABLE_COPY_AND_ASSIGN(InterpreterUse);

  bool possible() const noexcept { return possible_; }

 private:
  bool possible_;
};

// Sets the callback of torch.compile for Python frames in this thread, and returns the previous
// one.
py::object set_eval_frame(const py::object& callback) {
  static auto* function =  // leaked
      new py::object(py::module_::import("torch._C._dynamo.eval_frame").attr("set_eval_frame"));
  return (*function)(callback);
}

// A scope in which torch.compile, function modes and torch.jit.trace see no call of this thread.
class Unobserved {
 public:
  Unobserved() : callback_(set_eval_frame(py::none())), modes_(Modes::get_disabled_state()) {
    Modes::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
    if (torch::jit::tracer::isTracing()) resume_trace_ = torch::jit::tracer::pauseTracing();
  }
  ~Unobserved() {
    if (resume_trace_) resume_trace_();
    Modes::set_disabled_state(modes_);
    if (callback_.is_none()) return;
    const py::error_scope raised;
    set_eval_frame(callback_);
  }
  C10_DISABLE_COPY_AND_ASSIGN(Unobserved);

 private:
  using Modes = at::impl::PythonTorchFunctionTLS;
  const py::object callback_;
  const at::impl::TorchFunctionDisabledState modes_;
  std::function<void()> resume_trace_;
};

// A null object: it declined.
py::object call(const py::function& function, const DecompositionFunction::Arguments& parameters,
                const torch::jit::Stack& values) {
  std::vector<py::object> arguments;
  std::vector<PyObject*> pointers;
  for (size_t i = 0; i < parameters.size(); ++i) {
    arguments.push_back(to_python(values.at(i), parameters[i]));
    pointers.push_back(arguments.back().ptr());
  }
  PyObject* result = PyObject_Vectorcall(function.ptr(), pointers.data(), pointers.size(), nullptr);
  if (result != nullptr) return py::reinterpret_steal<py::object>(result);
  py::error_already_set error;
  if (!error.matches(declined_in_python()) && !error.matches(PyExc_ArithmeticError)) throw error;
  return {};
}

std::vector<std::string> parameters_of(const py::function& function) {
  const py::object code = function.attr("__code__");
  const auto names = code.attr("co_varnames").cast<std::vector<std::string>>();
  const auto count = code.attr("co_argcount").cast<size_t>();
  std::vector<std::string> parameters(names.begin(), names.begin() + static_cast<ptrdiff_t>(count));
  for (std::string& name : parameters) {
    if (name.back() == '_') name.pop_back();
  }
  return parameters;
}

}  // namespace

PythonFunction hold_function(py::function function) {
  return {new py::function(std::move(function)), [](py::function* held) {
            // After the interpreter's end there is no reference to release.
            if (!Py_IsInitialized()) return;
            py::gil_scoped_acquire lock;
            delete held;
          }};
}

py::object to_python(const c10::IValue& value, const c10::Argument& argument) {
  if (value.isInt()) {
    c10::TypePtr type = argument.real_type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return py::cast(static_cast<at::ScalarType>(value.toInt()));
      case c10::TypeKind::LayoutType:
        return py::cast(static_cast<at::Layout>(value.toInt()));
      case c10::TypeKind::MemoryFormatType:
        return py::cast(static_cast<at::MemoryFormat>(value.toInt()));
      default:
        break;
    }
  }
  return torch::jit::toPyObject(value);
}

std::vector<c10::IValue> to_results(const py::object& result,
                                    const std::vector<c10::Argument>& returns) {
  std::vector<c10::IValue> values;
  if (returns.size() == 1) {
    values.push_back(torch::jit::toIValue(result, returns[0].type()));
  } else if (!returns.empty()) {
    const auto results = result.cast<py::sequence>();
    TORCH_CHECK_VALUE(results.size() == returns.size(), "the function of an operator returned ",
                      results.size(), " values, and the operator returns ", returns.size());
    for (size_t i = 0; i < returns.size(); ++i) {
      values.push_back(torch::jit::toIValue(results[i], returns[i].type()));
    }
  }
  return values;
}

py::object declined_in_python() {
  static PyObject* exception = PyErr_NewException("torch_outboard.Declined", nullptr, nullptr);
  return py::reinterpret_borrow<py::object>(exception);
}

Definition::Function make_decomposition(py::function function) {
  DecompositionFunction made;
  made.parameters = parameters_of(function);
  made.call = [held = hold_function(std::move(function))](
                  const DecompositionFunction::Arguments& parameters,
                  const DecompositionFunction::Arguments& returns, torch::jit::Stack& stack) {
    bool accepted = false;
    run_in_interpreter([&] {
      const py::object result = call(*held, parameters, stack);
      stack.clear();
      if (!result) return;
      stack = to_results(result, returns);
      accepted = true;
    });
    return accepted;
  };
  return std::make_shared<const DecompositionFunction>(std::move(made));
}

bool run_in_interpreter(const std::function<void()>& work) {
  const InterpreterUse use;
  if (!use.possible()) return false;
  const py::gil_scoped_acquire lock;
  const Unobserved unobserved;
  work();
  return true;
}

void stop_interpreter_calls() {
  if (in_bad_fork()) return;
  g_stopped_by.store(std::this_thread::get_id());
  g_stopped.store(true);
  const auto end = std::chrono::steady_clock::now() + kExitPatience;
  while (g_calls.load() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace outboard
