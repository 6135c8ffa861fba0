#include "runtime/programs/launch.h"

#include "runtime/driver/driver_table.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/recording/recorded_call.h"

namespace outboard {

void launch(StreamState& stream, Kernel& kernel, const Grid& grid,
            const LaunchArguments& arguments) {
  ob_launch description;
  description.struct_size = sizeof(description);
  description.start = description.end = nullptr;
  description.dimensions = grid.dimensions;
  for (int i = 0; i < 3; ++i) {
    description.global[i] = grid.global[i];
    description.local[i] = grid.local[i];
  }
  description.arguments = arguments.data();
  description.argument_count = arguments.size();
  description.argument_bytes = sizeof(ob_argument);
  const ob_driver& table = driver();
  RecordedWork record(stream, ActivityKind::kKernel, "launch");
  if (record) record.describe(kernel.name(), description, arguments.local_bytes());
  {
    const Kernel::Use use(kernel);
    description.kernel = use.handle();
    kernel.check_limits(grid.local[0] * grid.local[1] * grid.local[2], arguments.local_bytes());
    check_status(table.launch(table.context, stream.queue, &description), "launch");
  }
  stream.mark_submitted();
  record.enqueued();
  if (C10_UNLIKELY(launches_block()) && !stream.capturing.load()) synchronize_stream(stream);
  kernel.note_launch(grid.local[0] | grid.local[1] << 20 | grid.local[2] << 40);
}

}  // namespace outboard
