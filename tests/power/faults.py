"""Faults of `make test-power`: each changes one line so that the result is wrong."""

from dataclasses import dataclass

KINDS: tuple[str, ...] = (
    "kernel index",
    "numerics",
    "missing wait",
    "stride",
    "argument",
    "leak",
    "early free",
    "dtype rule",
    "lost error",
    "cache key",
    "bounds",
    "synchronization",
    "autograd",
    "random",
    "serialization",
    "distributed",
    "compile",
    "driver",
    "profiler",
    "hooks",
)


@dataclass(frozen=True)
class Fault:
    """One changed line.

    Attributes:
        name: unique, in lower case with hyphens.
        kind: what sort of mistake it is, from KINDS.
        file: relative to the repository.
        old: a part of one line, which occurs once in the file.
        new: what replaces it.
        effect: what a user would see, as one short sentence.
    """

    name: str
    kind: str
    file: str
    old: str
    new: str
    effect: str


FAULTS: tuple[Fault, ...] = (
    # ---- Kernels ----
    Fault(
        name="average-pool-ceil-divisor",
        kind="kernel index",
        file="torch_outboard/kernels/images/average_pool.cl",
        old="min(name##_begin + (kernel), (size) + (padding));",
        new="name##_begin + (kernel);",
        effect=(
            "With ceil_mode the last windows of avg_pool are divided by the size of a whole window."
        ),
    ),
    Fault(
        name="adaptive-pool-window-end",
        kind="bounds",
        file="torch_outboard/kernels/images/pooling.cl",
        old="* inputs + outputs - 1) / outputs",
        new="* inputs) / outputs",
        effect="Adaptive pooling leaves out elements when the sizes do not divide.",
    ),
    Fault(
        name="sort-merge-ties",
        kind="kernel index",
        file="torch_outboard/kernels/ordering/sort.cl",
        old="ob_before(from##_load(b), from##_load(a))",
        new="!ob_before(from##_load(a), from##_load(b))",
        effect="A sort of more than 16 elements with equal ones gives some indices twice.",
    ),
    Fault(
        name="scatter-amax-nan",
        kind="numerics",
        file="torch_outboard/kernels/indexing/scatter.cl",
        old="a > b || a != a ? a : b",
        new="a > b ? a : b",
        effect="scatter_reduce with amax loses a NaN that is followed by a number.",
    ),
    Fault(
        name="lstm-cell-gradient",
        kind="autograd",
        file="torch_outboard/kernels/layers/recurrent.cl",
        old="of_cell[r] = GRAD_CY(type, load, row[r]);",
        new="of_cell[r] = GRAD_HY(type, load, row[r]);",
        effect=(
            "The gradient through the last cell state of an LSTM is that of the last hidden state."
        ),
    ),
    Fault(
        name="batch-norm-running-var",
        kind="numerics",
        file="torch_outboard/kernels/normalization/batch_norm.cl",
        old="momentum * (variation / (count - 1)) +",
        new="momentum * (variation / count) +",
        effect="Batch norm keeps the biased variance in running_var.",
    ),
    Fault(
        name="argmax-third-vector",
        kind="kernel index",
        file="torch_outboard/kernels/reductions/reduction.cl",
        old="i + 2 * OB_WIDTH OB_ARGUMENTS",
        new="i + OB_WIDTH OB_ARGUMENTS",
        effect=(
            "argmax over a long contiguous row is off by one vector for a quarter of all indices."
        ),
    ),
    Fault(
        name="cumsum-third-block",
        kind="kernel index",
        file="torch_outboard/kernels/reductions/scans.cl",
        old="other < item + k; ++other) {",
        new="other < item + k - 1; ++other) {",
        effect="cumsum over a row of three or more blocks drops the block before.",
    ),
    Fault(
        name="fourier-radix-3",
        kind="numerics",
        file="torch_outboard/kernels/products/fourier.cl",
        old="0.86602540378443864676",
        new="0.86620540378443864676",
        effect="FFTs are off in the fourth digit where the length has a factor of 3.",
    ),
    Fault(
        name="addmm-beta-column",
        kind="argument",
        file="torch_outboard/kernels/products/matrix_product.cl",
        old="value += (V)(beta * LOAD(addends, added_at[c]));",
        new="value += (V)(LOAD(addends, added_at[c]));",
        effect="addmm ignores beta for what it adds to each row as one number.",
    ),
    # ---- Operators ----
    Fault(
        name="index-reduce-include-self",
        kind="argument",
        file="torch_outboard/ops/indexing/decompositions.py",
        old="include_self=include_self)",
        new="include_self=True)",
        effect="index_reduce with include_self=False counts the elements of self.",
    ),
    Fault(
        name="fused-sgd-dampening",
        kind="argument",
        file="torch_outboard/ops/pointwise/optimizers.py",
        old='(C(1) - dampening) * {gradient})"',
        new='{gradient})"',
        effect="SGD with fused=True ignores dampening.",
    ),
    Fault(
        name="randperm-offset",
        kind="random",
        file="torch_outboard/ops/random_numbers/draws.py",
        old="plan.random(where(n > 0, 1, 0))",
        new="plan.random(0)",
        effect="Two calls of randperm in a row give the same permutation.",
    ),
    Fault(
        name="layer-norm-bias-mask",
        kind="autograd",
        file="torch_outboard/ops/normalization/norm_layers.py",
        old='for k, name in ((1, "grad_weight"), (2, "grad_bias")):',
        new='for k, name in ((1, "grad_weight"), (1, "grad_bias")):',
        effect="The bias of a layer norm gets no gradient when its weight needs none.",
    ),
    Fault(
        name="attention-mask-stride",
        kind="stride",
        file="torch_outboard/ops/layers/attention.py",
        old="where(mask.size(dim) == 1, 0, mask.stride(dim))",
        new="mask.stride(dim)",
        effect="Attention reads a mask of one head at wrong offsets for the other heads.",
    ),
    # ---- Inductor ----
    Fault(
        name="compiled-argmax-ties",
        kind="compile",
        file="torch_outboard/inductor/kernel/reductions.py",
        old="({i} < 0 || {wins} || ({equal} && {k} < {i}))",
        new="({i} < 0 || {wins})",
        effect="Compiled argmax gives an index of equal maxima that is not the first.",
    ),
    Fault(
        name="compiled-var-runs",
        kind="numerics",
        file="torch_outboard/inductor/kernel/moments.py",
        old="+= {other_two} + delta * delta * {count} * ratio;",
        new="+= {other_two};",
        effect=(
            "Compiled variances of long rows leave out what lies between the means of their parts."
        ),
    ),
    Fault(
        name="compiled-search-right",
        kind="compile",
        file="torch_outboard/inductor/opencl/algorithms.py",
        old="right ? {after} : {equal};",
        new="{after};",
        effect="Compiled searchsorted and bucketize treat equal elements as with right=True.",
    ),
    Fault(
        name="captured-random-states",
        kind="random",
        file="torch_outboard/inductor/passes.py",
        old="buffer.copy_(_reserve(*call))",
        new="_reserve(*call)",
        effect="A function compiled with reduce-overhead draws the same numbers in each replay.",
    ),
    Fault(
        name="captured-written-input",
        kind="compile",
        file="torch_outboard/inductor/captured_graphs.py",
        old="buffers[index], index in copied_back)",
        new="buffers[index], False)",
        effect=(
            "A change in place of an input is lost with reduce-overhead where its address changes."
        ),
    ),
    Fault(
        name="expression-cache-key",
        kind="cache key",
        file="torch_outboard/inductor/lowerings/expressions.py",
        old="{name} {one.expression} {sorted",
        new="{name} {sorted",
        effect="PyTorch's cache gives the code of an earlier expression of the same operator.",
    ),
    # ---- Other Python ----
    Fault(
        name="stream-context-device",
        kind="hooks",
        file="torch_outboard/device/streams.py",
        old="_C.exchange_device(self._previous_device)",
        new="self._previous_device = -1",
        effect="After the context of a stream of another device that device stays current.",
    ),
    Fault(
        name="checkpoint-device-index",
        kind="serialization",
        file="torch_outboard/device/serialization.py",
        old="device = torch.device(state.name, number)",
        new="device = torch.device(state.name)",
        effect=(
            "A checkpoint of another driver is loaded on the current device, not that of its index."
        ),
    ),
    Fault(
        name="fallback-policy-listing",
        kind="lost error",
        file="torch_outboard/dispatch/fallback.py",
        old='listed.get(name, "none")',
        new='"none"',
        effect="The end of a block with a fallback policy undoes an earlier deny of its operators.",
    ),
    Fault(
        name="mem-pool-release",
        kind="leak",
        file="torch_outboard/device/memory.py",
        old="_C.release_memory_pool(index, self.id)",
        new="_C.check_device_index(index)",
        effect="The memory of a MemPool that is gone never goes back to the device.",
    ),
    # ---- C++ ----
    Fault(
        name="autocast-promote",
        kind="dtype rule",
        file="csrc/autograd/autocast.cpp",
        old="KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)",
        new="KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)",
        effect="cat of half tensors under autocast gives float32.",
    ),
    Fault(
        name="reuse-before-other-stream",
        kind="early free",
        file="csrc/runtime/memory/caching/device_cache.cpp",
        old="const bool passed = wait ? use->marker.wait() : use->marker.has_passed();",
        new="const bool passed = !wait || use->marker.wait();",
        effect="Memory is used again while a stream that record_stream named still works on it.",
    ),
    Fault(
        name="pointwise-kernel-key",
        kind="cache key",
        file="csrc/device_kernels/pointwise/pointwise_launch.cpp",
        old="key.dtypes.back() = static_cast<uint8_t>(compute);",
        new="key.dtypes.back() = 0;",
        effect="After x == 1 on integers, x == 1.5 runs the kernel that compares integers.",
    ),
    Fault(
        name="bool-sum-dtype",
        kind="dtype rule",
        file="csrc/device_kernels/reduction/reduction.cpp",
        old="types_ == Types::kPromote && at::isIntegralType(input, /*includeBool=*/true)",
        new="types_ == Types::kPromote && at::isIntegralType(input, /*includeBool=*/false)",
        effect="The sum of a bool tensor is bool.",
    ),
    Fault(
        name="metadata-value-equals",
        kind="serialization",
        file="csrc/tensors/serialization.cpp",
        old="const size_t equals = text.find('=');",
        new="const size_t equals = text.rfind('=');",
        effect="Metadata of a tensor with an equals sign in its value is wrong after torch.load.",
    ),
    Fault(
        name="peer-copy-order",
        kind="missing wait",
        file="csrc/transfer/copy.cpp",
        old="enqueue_wait(there, here);",
        new="",
        effect="Work on the destination's stream does not wait for a copy from another device.",
    ),
    Fault(
        name="copy-to-host-assert",
        kind="lost error",
        file="csrc/transfer/copy.cpp",
        old="if (host == &destination) raise_deferred();",
        new="if (host == &source) raise_deferred();",
        effect="An index out of range is not reported by cpu() where the host shares the memory.",
    ),
    Fault(
        name="resize-storage-offset",
        kind="stride",
        file="csrc/tensors/required_operators.cpp",
        old="computeStorageNbytesContiguous(size, itemsize, offset);",
        new="computeStorageNbytesContiguous(size, itemsize, 0);",
        effect="resize_ of a view with a storage offset makes the storage too small.",
    ),
    Fault(
        name="index-second-dimension",
        kind="bounds",
        file="csrc/device_kernels/decompositions/advanced_indexing.cpp",
        old="at::logical_and(wrapped.ge(0), wrapped.lt(n))",
        new="wrapped.ge(0)",
        effect="x[[0], [n]] reads the next row instead of raising IndexError.",
    ),
    Fault(
        name="collective-record-stream",
        kind="missing wait",
        file="csrc/distributed/process_group.cpp",
        old="for (const at::Tensor& tensor : all) tensor.record_stream(stream);",
        new="",
        effect="Tensors that are freed during a collective are used again before it ends.",
    ),
    Fault(
        name="reduce-on-other-ranks",
        kind="distributed",
        file="csrc/distributed/collectives/reducing.cpp",
        old="if (root) reduction.finish(host, carried[0]);",
        new="reduction.finish(host, carried[0]);",
        effect="reduce changes the tensors of the ranks that are not its destination.",
    ),
    Fault(
        name="profiler-device-time",
        kind="profiler",
        file="csrc/profiler/profiler_stubs.cpp",
        old="first.elapsed_time(last) * 1000",
        new="first.elapsed_time(last)",
        effect=(
            "profile(use_device=...) without device activities shows times 1000 times too small."
        ),
    ),
    # ---- Drivers ----
    Fault(
        name="host-fill-tail",
        kind="driver",
        file="torch_outboard/drivers/queues/queue.cpp",
        old="std::memcpy(destination + i, tile, std::min(bytes - i, tile_bytes));",
        new="std::memcpy(destination + i, tile, tile_bytes);",
        effect="A fill of more than 4096 bytes writes behind its end.",
    ),
    Fault(
        name="host-shared-file",
        kind="leak",
        file="torch_outboard/drivers/memory/memory.cpp",
        old="if (descriptor_ >= 0) close(descriptor_);",
        new="if (descriptor_ >= 0) (void)descriptor_;",
        effect="Each tensor that was shared with a process leaves its file and memory behind.",
    ),
    Fault(
        name="host-reduce-scatter-slots",
        kind="distributed",
        file="torch_outboard/drivers/host/collectives.c",
        old="source + i * work->meant.elements * work->item, bytes);",
        new="source + i * bytes, bytes);",
        effect="A reduce_scatter that takes more than one round adds wrong parts.",
    ),
    Fault(
        name="ocl-argument-cache",
        kind="early free",
        file="torch_outboard/drivers/ocl/program.cpp",
        old="if (kernel->releases != releases) kernel->arguments.clear();",
        new="if (kernel->releases > releases) kernel->arguments.clear();",
        effect="A kernel keeps the buffer that was released where a new one has its handle.",
    ),
    Fault(
        name="host-device-synchronize",
        kind="synchronization",
        file="torch_outboard/drivers/queues/queue.cpp",
        old="  mark->wait();",
        new="",
        effect=(
            "synchronize() in a thread that is not the main one returns before the work is done."
        ),
    ),
)
