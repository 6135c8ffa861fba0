"""Time of operators and training steps on a GPU: a device of this kit against PyTorch's CUDA.

    python -m benchmarks.against_cuda [--rounds 9] [--group operators] [--save gpu-h100] [names...]

For a machine with an NVIDIA GPU, an OpenCL driver for it, and a PyTorch that is built for CUDA.
Both sides use the same GPU and take turns. Float32 is computed without the rounding of
TensorFloat-32, as in the kit's kernels. The group `halves` is of 16-bit types. Steps of `autocast`
run in `torch.autocast` with bfloat16; those of `compiled` have a network that each side's
`torch.compile` compiled. Tensors are several times as large as a GPU's cache. A failure is printed,
and the next work measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from benchmarks.paired import Work, compare, save
from benchmarks.training_steps import NETWORKS, training
from benchmarks.training_steps import WORKS as STEPS

ELEMENTS = 64 << 20  # 256 MiB of float32
ROWS, COLUMNS = 16_384, 4096
WORDS, WIDTH, TOKENS = 100_000, 1024, 65_536
ROUND_SECONDS = 0.03
CHAIN = 50

Function = Callable[..., object]


def of_tensors(
    function: Function,
    *sizes: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    into: bool = False,
) -> Work:
    """`function` of random tensors; `into` a result that was allocated beforehand."""

    def prepare(device: str) -> Callable[[], object]:
        without_tensor_float()
        torch.manual_seed(0)
        tensors = [torch.randn(size, dtype=dtype, device=device) for size in sizes]
        named = {"out": function(*tensors)} if into else {}
        return lambda: function(*tensors, **named)

    return prepare


into_result = partial(of_tensors, into=True)


def without_tensor_float() -> None:
    """Makes CUDA's products and convolutions use all bits of float32, like the kit's."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def chain(device: str) -> Callable[[], object]:
    """50 operators on few elements: the cost of a launch without a wait."""
    x = torch.ones(16, device=device)

    def run() -> object:
        y = x
        for _ in range(CHAIN):
            y = y + x
        return y

    return run


def waited_for(device: str) -> Callable[[], object]:
    """One operator on few elements and its result on the host."""
    x = torch.ones(1, device=device)
    return lambda: (x + x).item()


def gather(device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    values = torch.randn(ROWS, COLUMNS, device=device)
    indices = torch.randint(0, COLUMNS, (ROWS, COLUMNS)).to(device)
    return lambda: values.gather(1, indices)


def embedding(backward: bool, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    weight = torch.randn(WORDS, WIDTH, device=device)
    indices = torch.randint(0, WORDS, (TOKENS,)).to(device)
    out = functional.embedding(indices, weight)
    if not backward:
        return lambda: functional.embedding(indices, weight)
    return lambda: torch.ops.aten.embedding_dense_backward(out, indices, WORDS, -1, False)


def layer_norm(backward: bool, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    values, gradient = (torch.randn(ROWS, COLUMNS, device=device) for _ in range(2))
    weight, bias = (torch.randn(COLUMNS, device=device) for _ in range(2))
    forward = torch.ops.aten.native_layer_norm
    _, mean, rstd = forward(values, [COLUMNS], weight, bias, 1e-5)
    if not backward:
        return lambda: forward(values, [COLUMNS], weight, bias, 1e-5)
    arguments = (gradient, values, [COLUMNS], mean, rstd, weight, bias, [True] * 3)
    return lambda: torch.ops.aten.native_layer_norm_backward(*arguments)


def convolution(
    backward: bool,
    device: str,
    dtype: torch.dtype = torch.float32,
    layout: torch.memory_format = torch.contiguous_format,
) -> Callable[[], object]:
    """64 images of 56 x 56, 64 to 64 channels, 3 x 3: a layer of ResNet-18."""
    without_tensor_float()
    torch.manual_seed(0)
    image = torch.randn(64, 64, 56, 56, device=device, dtype=dtype).to(memory_format=layout)
    weight = torch.randn(64, 64, 3, 3, device=device, dtype=dtype).to(memory_format=layout)
    options = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    out = torch.ops.aten.convolution(image, weight, None, *options)
    if not backward:
        return lambda: torch.ops.aten.convolution(image, weight, None, *options)
    return lambda: torch.ops.aten.convolution_backward(
        out, image, weight, None, *options, [True, True, False]
    )


def attention(device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    query, key, value = (torch.randn(8, 16, 1024, 64, device=device) for _ in range(3))
    return lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def attention_of_halves(backward: bool, causal: bool, device: str) -> Callable[[], object]:
    """bfloat16, 16 batches of 16 heads of 1024 queries and keys of 64 elements."""
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(16, 16, 1024, 64, device=device, dtype=torch.bfloat16, requires_grad=backward)
        for _ in range(3)
    )
    attend = partial(functional.scaled_dot_product_attention, query, key, value, is_causal=causal)
    if not backward:
        return attend
    out = attend()
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True)


def step(work: Work, *, autocast: bool = False) -> Work:
    def prepare(device: str) -> Callable[[], object]:
        without_tensor_float()
        run = work(device)

        def in_autocast() -> None:
            with torch.autocast(device, torch.bfloat16):
                run()

        return in_autocast if autocast else run

    return prepare


LARGE_STEPS = [name for name in STEPS if name not in ("MLP", "CNN of the demo")]
MANY, MATRIX = (ELEMENTS,), (ROWS, COLUMNS)
GROUPS: dict[str, dict[str, Work]] = {
    "launches": {
        "chain of 50": chain,
        "x + x and its value": waited_for,
        "small step: MLP": step(STEPS["MLP"]),
    },
    "operators": {
        "add": into_result(torch.add, MANY, MANY),
        "add, bfloat16": into_result(torch.add, MANY, MANY, dtype=torch.bfloat16),
        "exp": into_result(torch.exp, MANY),
        "gelu": of_tensors(functional.gelu, MANY),
        "copy of a transpose": of_tensors(lambda x: x.t().contiguous(), MATRIX),
        "cat": of_tensors(lambda x, y: torch.cat([x, y], 1), MATRIX, MATRIX),
        "sum": of_tensors(torch.sum, MANY),
        "sum of rows": of_tensors(lambda x: x.sum(1), MATRIX),
        "sum of columns": of_tensors(lambda x: x.sum(0), MATRIX),
        "argmax of rows": of_tensors(lambda x: x.argmax(1), MATRIX),
        "variance of rows": of_tensors(lambda x: x.var(1), MATRIX),
        "cumsum of rows": of_tensors(lambda x: x.cumsum(1), MATRIX),
        "softmax": of_tensors(lambda x: x.softmax(1), MATRIX),
        "layer norm": partial(layer_norm, False),
        "gradients of layer norm": partial(layer_norm, True),
        "gather": gather,
        "embedding": partial(embedding, False),
        "gradient of embedding": partial(embedding, True),
        "sort of rows": of_tensors(lambda x: x.sort(1), (ROWS, 1024)),
        "topk of rows": of_tensors(lambda x: x.topk(5), (ROWS, 1024)),
        "dropout": of_tensors(lambda x: functional.dropout(x, 0.1), MANY),
    },
    "products": {
        "1024^3": into_result(torch.mm, (1024, 1024), (1024, 1024)),
        "4096^3": into_result(torch.mm, (4096, 4096), (4096, 4096)),
        "128 of 512^3": into_result(torch.bmm, (128, 512, 512), (128, 512, 512)),
        "convolution": partial(convolution, False),
        "gradients of convolution": partial(convolution, True),
        "attention": attention,
    },
    "halves": {
        "4096^3, float16": into_result(torch.mm, (4096, 4096), (4096, 4096), dtype=torch.float16),
        "4096^3, bfloat16": into_result(torch.mm, (4096, 4096), (4096, 4096), dtype=torch.bfloat16),
        "1024^3, bfloat16": into_result(torch.mm, (1024, 1024), (1024, 1024), dtype=torch.bfloat16),
        "convolution, bfloat16": partial(convolution, False, dtype=torch.bfloat16),
        "gradients of convolution, bfloat16": partial(convolution, True, dtype=torch.bfloat16),
        "convolution, channels last, bfloat16": partial(
            convolution, False, dtype=torch.bfloat16, layout=torch.channels_last
        ),
        "attention, bfloat16": partial(attention_of_halves, False, False),
        "causal attention, bfloat16": partial(attention_of_halves, False, True),
        "gradients of attention, bfloat16": partial(attention_of_halves, True, False),
    },
    "steps": {name: step(STEPS[name]) for name in LARGE_STEPS},
    "autocast": {
        f"{name}, autocast": step(STEPS[name], autocast=True) for name in ("MLP", *LARGE_STEPS)
    },
    "compiled": {
        f"{name}, compiled": step(training(*NETWORKS[name], compiled=True))
        for name in ("MLP", "small GPT")
    },
}
WORKS = {name: work for group in GROUPS.values() for name, work in group.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of: {', '.join(WORKS)}")
    parser.add_argument("--group", action="append", choices=sorted(GROUPS), default=[])
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--reference", default="cuda")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--save", metavar="NAME", help="a name in benchmarks/results")
    options = parser.parse_args()
    if unknown := set(options.names) - set(WORKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    names = options.names or [name for group in options.group or GROUPS for name in GROUPS[group]]
    results = compare(
        names,
        device=options.device,
        reference=options.reference,
        rounds=options.rounds,
        module="benchmarks.against_cuda",
        environment={"OUTBOARD_PLACEMENT": "device"},
        # Autograd for CUDA fails in a process in which another accelerator is registered.
        reference_environment={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        keep_going=True,
    )
    if options.save:
        print(save(options.save, results))


if __name__ == "__main__":
    main()
