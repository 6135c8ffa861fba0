"""Drivers that are broken in one way each, and the check that has to find it.

`broken/*.cpp` has the faults under the same names. The base of a driver is `host` with the library
of tests/library, in shared memory; a fault of launches is put into `ocl`, and one of host access
into `host` in separate memory.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    """A broken driver.

    Attributes:
        fault: its name.
        what: what is wrong.
        check: the check that finds it.
        base: "library", "ocl" or "separate".
    """

    fault: str
    what: str
    check: str
    base: str = "library"


BROKEN = (
    # ---- Table and devices
    Broken("half_a_group", "host_allocate without host_deallocate", "table.groups_are_whole"),
    Broken("last_error_is_null", "NULL before a failure", "table.last_error_without_failure"),
    Broken("no_message", "failures without words", "failures.every_failure_has_a_message"),
    Broken("fills_the_whole_struct", "struct_size is ignored", "devices.older_and_newer_structs"),
    Broken("properties_change", "other properties at each call", "devices.properties"),
    Broken("any_device", "events of devices that do not exist", "devices.unknown_devices"),
    Broken("peers_disagree", "peer access in one direction", "devices.peer_access"),
    Broken("state_of_400_percent", "an impossible utilization", "devices.state"),
    Broken("devices_share_memory", "both devices have one memory", "devices.isolation"),
    Broken("one_buffer_for_properties", "threads share a struct", "threads.properties"),
    # ---- Memory
    Broken("unaligned", "addresses 8 bytes behind the alignment", "memory.sizes"),
    Broken("allocations_overlap", "half of each is another's", "memory.allocations_do_not_overlap"),
    Broken("no_bytes_allocated", "0 bytes are allocated", "memory.sizes_that_cannot_be"),
    Broken("no_memory_is_an_error", "ERROR for OUT_OF_MEMORY", "memory.sizes_that_cannot_be"),
    Broken("memory_info_is_constant", "all bytes are always free", "memory.memory_info"),
    Broken("total_memory_lies", "four times the memory that is there", "memory.up_to_total_memory"),
    Broken("nothing_is_freed", "deallocate does nothing", "memory.freed_memory_is_free"),
    Broken("freed_memory_is_given_twice", "freed bytes go to two", "memory.random_use"),
    Broken("allocation_waits", "allocate waits for the device", "memory.allocation_does_not_wait"),
    Broken("allocation_without_lock", "threads get the same bytes", "threads.allocations"),
    Broken("pinned_memory_loses_its_end", "the last byte is not copied", "memory.pinned_memory"),
    Broken("registered_memory_is_a_copy", "copies go to a copy", "memory.registered_memory"),
    Broken("host_access_lies", "memory that the host cannot touch",
           "memory.shared_memory_is_seen_by_the_host", "separate"),
    # ---- Transfers
    Broken("odd_sizes_lose_a_byte", "sizes are rounded down", "transfers.to_device_and_back"),
    Broken("copies_write_whole_words", "sizes are rounded up", "transfers.to_device_and_back"),
    Broken("offsets_are_rounded_down", "within a device", "transfers.within_a_device"),
    Broken("device_offsets_are_rounded_down", "of small copies", "transfers.every_offset"),
    Broken("beyond_64_mib_is_lost", "copies lose their end", "transfers.of_64_mebibytes"),
    Broken("copies_of_2_gib_are_dropped", "sizes of 31 bits", "transfers.of_2_gibibytes"),
    Broken("fills_of_2_gib_are_cut", "sizes of 31 bits", "transfers.of_2_gibibytes"),
    Broken("patterns_of_16_bytes_are_halved", "8 of 16 bytes are repeated", "transfers.fills"),
    Broken("pattern_is_read_later", "use after the call", "transfers.pattern_is_copied"),
    Broken("peer_copies_do_nothing", "OK without a copy", "transfers.between_devices"),
    Broken("pitches_are_swapped", "one pitch for both sides", "transfers.rows_to_device"),
    Broken("rows_write_between_them", "a byte more in each row", "transfers.rows_to_host"),
    Broken("last_row_is_lost", "one row less", "transfers.rows_within_a_device"),
    Broken("copies_wait", "copies synchronize the queue", "transfers.transfers_do_not_wait"),
    Broken("host_memory_is_read_later", "copies outlive the wait",
           "transfers.host_memory_after_synchronize"),
    Broken("features_lie", "host memory is refused",
           "transfers.host_memory_as_device_memory", "separate"),
    # ---- Queues and callbacks
    Broken("queue_reorders", "small copies overtake", "queues.order"),
    Broken("one_queue_for_all", "queues block each other", "queues.queues_are_independent"),
    Broken("queues_are_always_ready", "queue_query says OK", "queues.query"),
    Broken("synchronize_returns_early", "no wait", "queues.synchronize_waits_for_work_so_far"),
    Broken("synchronize_waits_until_idle", "waits for later work, too",
           "queues.synchronize_waits_for_work_so_far"),
    Broken("device_synchronize_does_nothing", "no wait", "queues.device_synchronize"),
    Broken("device_synchronize_waits_for_all", "waits for other devices",
           "queues.device_synchronize_leaves_other_devices"),
    Broken("device_synchronize_holds_a_lock", "no queue can be created meanwhile",
           "queues.queues_come_while_a_device_is_awaited"),
    Broken("destroy_does_not_wait", "work goes on behind it", "queues.destroyed_with_work"),
    Broken("any_priority", "priorities are not checked", "queues.priorities"),
    Broken("callback_holds_a_lock", "deadlock with other calls", "queues.callbacks_hold_no_lock"),
    Broken("callback_runs_in_the_call", "on the caller's thread", "queues.callbacks"),
    Broken("callbacks_out_of_order", "pairs are swapped", "queues.callbacks"),
    Broken("callbacks_run_twice", "two calls of each function", "queues.callbacks"),
    Broken("work_does_not_wait_for_callbacks", "later work overtakes",
           "queues.work_waits_for_callbacks"),
    # ---- Failures
    Broken("failure_is_swallowed", "queue_synchronize says OK", "failures.reported_once"),
    Broken("failure_is_reported_for_ever", "the queue stays failed", "failures.reported_once"),
    Broken("failure_of_another_queue", "one failure for all queues", "failures.of_one_queue"),
    Broken("events_behind_failures_never_happen", "a wait lasts for ever",
           "failures.events_behind"),
    Broken("one_last_error", "all threads share a message", "threads.messages"),
    # ---- Events
    Broken("never_recorded_is_pending", "a new event is pending", "events.never_recorded"),
    Broken("events_have_always_happened", "event_query says OK", "events.stands_for_work_so_far"),
    Broken("event_synchronize_returns_early", "no wait", "events.synchronize_waits"),
    Broken("event_waits_are_forgotten", "queues do not wait", "events.orders_queues"),
    Broken("event_record_waits", "recording waits for the work", "events.waits_do_not_block"),
    Broken("waits_follow_the_last_recording", "waits move with the event",
           "events.recorded_again"),
    Broken("used_after_it_was_destroyed", "a wait reads freed memory",
           "events.destroyed_while_pending"),
    Broken("crash_on_destroy", "the process ends", "events.destroyed_while_pending"),
    Broken("elapsed_in_seconds", "another unit", "events.elapsed"),
    Broken("times_of_calls", "times are those of event_record", "events.elapsed"),
    Broken("times_of_untimed_events", "0 ms instead of an error",
           "events.events_that_cannot_tell"),
    Broken("times_of_pending_events", "0 ms instead of NOT_READY",
           "events.times_of_pending_events"),
    Broken("another_clock", "times 5 s ahead", "events.time_of_the_host"),
    Broken("queue_of_another_device", "it is accepted", "events.queue_of_another_device"),
    # ---- Library calls
    Broken("out_is_read", "NaN in `out` stays NaN", "products.out_is_not_read"),
    Broken("alpha_is_ignored", "alpha is 1", "products.factors"),
    Broken("beta_is_ignored", "beta is 1", "products.factors"),
    Broken("imaginary_alpha_is_ignored", "its imaginary part is 0", "products.dtypes"),
    Broken("batch_stride_is_ignored", "batches follow each other", "products.batches"),
    Broken("terms_beyond_64_are_dropped", "the last term of a deep sum", "products.depths"),
    Broken("transposition_is_ignored", "a is read by rows", "products.layouts"),
    Broken("leading_dimension_is_ignored", "rows of out follow each other", "products.layouts"),
    Broken("last_row_of_64_is_lost", "the last row of a block", "products.edges"),
    Broken("bias_of_the_other_dimension", "rows for columns", "products.bias_and_activation"),
    Broken("activation_is_forgotten", "results as they are", "products.bias_and_activation"),
    Broken("query_computes", "`out` changes", "products.query_computes_nothing"),
    Broken("writes_and_declines", "`out` changes before UNSUPPORTED", "products.dtypes"),
    Broken("products_of_the_first_device_alone", "other devices compute nothing",
           "products.on_other_devices"),
    Broken("product_waits", "the call synchronizes the queue", "products.in_order"),
    Broken("dilation_is_ignored", "dilation is 1", "convolutions.forward"),
    Broken("padding_is_ignored", "padding is 0", "convolutions.backward_input"),
    Broken("channels_last_is_ignored", "images are read by planes",
           "convolutions.backward_weight"),
    Broken("bias_of_convolutions_is_ignored", "nothing is added",
           "convolutions.bias_and_activation"),
    # ---- Programs and launches
    Broken("sizes_of_16_bits", "launches are cut", "launches.beyond_65536", "ocl"),
    Broken("values_of_4_bytes", "wider values are cut", "launches.widths", "ocl"),
    Broken("three_dimensions_are_one", "all indices are the first",
           "launches.three_dimensions", "ocl"),
    Broken("launch_waits", "the call synchronizes the queue",
           "launches.launches_do_not_wait", "ocl"),
    Broken("options_are_ignored", "every build has the same", "programs.options", "ocl"),
    Broken("kernels_are_found_by_name", "two programs share a kernel",
           "programs.two_programs", "ocl"),
    Broken("no_build_log", "the compiler's words are lost", "programs.what_cannot_be_built",
           "ocl"),
    Broken("binary_overflows", "writes behind the binary", "programs.binaries", "ocl"),
    # ---- Graphs, sharing, communication
    Broken("capture_runs_work", "captured work runs at once", "graphs.capture"),
    Broken("graphs_run_once", "later launches do nothing", "graphs.capture"),
    Broken("import_is_a_copy", "writes are not seen", "sharing.import_is_the_same_memory"),
    Broken("averages_are_sums", "no division", "communication.reductions"),
    Broken("broadcast_of_rank_0", "the root is ignored", "communication.collectives"),
)  # fmt: skip
