"""Operators with index tensors, and indices that none of them may follow.

An operator is called with an index tensor of which one element is wrong, on CPU and on the device.
Where CPU raises, the device raises, at the call or at the next wait; where CPU gives a result, the
device gives that or raises. Memory around the operands stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Call = Callable[[torch.Tensor, Callable[..., torch.Tensor]], Any]

# How kernels could cut them to places that exist: 32 bits of 64, signs, one off.
WRONG = (
    2**31 - 1, 2**31, 2**31 + 2, -(2**31), -(2**31) - 1, -(2**31) + 1, 2**32 - 1, 2**32, 2**32 + 1,
    -(2**32), -(2**32) + 1, -(2**32) - 1, 2**33 + 2, 2**40 + 1, 2**62, 2**63 - 1, -(2**63),
    -(2**63) + 1,
)  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """An operator with an index tensor.

    Args:
        name: of the operator and what is special about it.
        index: right indices.
        size: the number of places that they can name.
        call: takes the index tensor on its device and a function that makes operands there:
            `new(2, 3)` is the same tensor of float32 at every call, with guarded memory around it.
            Returns everything that could have been written.
        dtypes: of the index tensor.
        follows: CPU itself follows wrong indices, so that the device can only be asked to raise or
            to leave its memory alone.
        allocates: the result has as many elements as the index says, so that only those are tried
            which no machine has memory for.
    """

    name: str
    index: Any
    size: int
    call: Call
    dtypes: tuple[torch.dtype, ...] = (torch.int64,)
    follows: bool = False
    allocates: bool = False

    def __str__(self) -> str:
        return self.name

    def wrong(self, values: Iterable[int] = WRONG) -> Iterator[torch.Tensor]:
        """Index tensors of which the last element is wrong: just so, or one of `values`."""
        for dtype in self.dtypes:
            near = (self.size, self.size + 1, -self.size, -self.size - 1, -1)
            for value in (*near, *values):
                if self.allocates and 2**16 < value <= 2**40 + 1:
                    continue
                if torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max:
                    index = torch.tensor(self.index, dtype=dtype)
                    index.view(-1)[-1] = value
                    yield index


class Memory:
    """Makes operands inside of larger tensors, and knows whether those were written."""

    GUARD = 64
    FILLING = 12345.0

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.whole: list[tuple[torch.Tensor, int]] = []

    def __call__(self, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        count = torch.Size(sizes).numel()
        filling = self.FILLING if dtype.is_floating_point else 123
        whole = torch.full((count + 2 * self.GUARD,), filling, dtype=dtype)
        values = (torch.arange(count) * 0.37).cos() * 4
        whole[self.GUARD : self.GUARD + count] = values.to(dtype)
        whole = whole.to(self.device)
        self.whole.append((whole, count))
        return whole[self.GUARD : self.GUARD + count].view(sizes)

    def is_right(self) -> bool:
        """Whether nothing beside the operands was written."""
        for whole, count in self.whole:
            host = whole.cpu()
            filling = torch.full((self.GUARD,), self.FILLING if host.is_floating_point() else 123)
            for part in (host[: self.GUARD], host[self.GUARD + count :]):
                if not torch.equal(part, filling.to(host.dtype)):
                    return False
        return True


def outcome(probe: Probe, index: torch.Tensor, device: torch.device) -> tuple[Any, bool]:
    """What a call gives, on the CPU, or None where it raises; and whether memory is right."""
    new = Memory(device)
    try:
        result = probe.call(index.to(device), new)
        tensors = result if isinstance(result, (list, tuple)) else [result]
        outcome = [t.detach().cpu() for t in tensors]
    except (RuntimeError, IndexError, ValueError):
        outcome = None
        if device.type != "cpu":  # what else was found wrong meanwhile
            while True:
                try:
                    torch.accelerator.synchronize(device)
                    break
                except (RuntimeError, IndexError):
                    pass
    return outcome, new.is_right()


def disagreement(probe: Probe, index: torch.Tensor, device: torch.device) -> str | None:
    """What is wrong with the device's answer, or None."""
    got, intact = outcome(probe, index, device)
    what = f"{probe.name} of {index.view(-1)[-1].item()} as {index.dtype}"
    if not intact:
        return f"{what}: memory beside the operands was written"
    if got is None or probe.follows:
        return None
    expected, _ = outcome(probe, index, torch.device("cpu"))
    if expected is None:
        return f"{what}: nothing was raised"
    for there, here in zip(got, expected, strict=True):
        if there.dtype != here.dtype or not torch.allclose(
            there.double(), here.double(), rtol=1e-4, atol=1e-5, equal_nan=True
        ):
            return f"{what}: the result differs from CPU's"
    return None


def _grads(result: torch.Tensor, *leaves: torch.Tensor) -> list[torch.Tensor]:
    result.backward(torch.ones_like(result))
    return [result, *(leaf.grad for leaf in leaves)]


def _leaf(x: torch.Tensor) -> torch.Tensor:
    return x.detach().clone().requires_grad_()


BOTH = (torch.int64, torch.int32)
I2 = [[0, 1, 2], [2, 1, 0]]
A = torch.ops.aten


def _selecting() -> list[Probe]:
    def gather_backward(i: torch.Tensor, new: Any) -> Any:
        x = _leaf(new(4, 3))
        return _grads(x.gather(0, i), x)

    def index_backward(i: torch.Tensor, new: Any) -> Any:
        x = _leaf(new(4, 3))
        return _grads(x[i], x)

    def sparse_backward(i: torch.Tensor, new: Any) -> Any:
        weight = _leaf(new(4, 3))
        F.embedding(i, weight, sparse=True).sum().backward()
        return weight.grad.to_dense()

    return [
        Probe("gather", I2, 4, lambda i, new: new(4, 3).gather(0, i)),
        Probe("gather of rows", I2, 4, lambda i, new: new(2, 4).gather(1, i)),
        Probe("gather of one", [2], 4, lambda i, new: new(4).gather(0, i)),
        Probe("gather backward", I2, 4, gather_backward),
        Probe("gather of bytes", I2, 4, lambda i, new: new(4, 3, dtype=torch.uint8).gather(0, i)),
        Probe("take_along_dim", I2, 4, lambda i, new: torch.take_along_dim(new(4, 3), i, 0)),
        Probe("take", I2, 12, lambda i, new: new(4, 3).take(i)),
        Probe("index_select", [0, 2], 4, lambda i, new: new(4, 3).index_select(0, i), BOTH),
        Probe("index_select of columns", [0, 2], 4, lambda i, new: new(3, 4).index_select(1, i)),
        Probe("index_select of long rows", [0, 2], 4,
              lambda i, new: new(4, 40).index_select(0, i), BOTH),
        Probe("index", I2, 4, lambda i, new: new(4, 3)[i], BOTH),
        Probe("index of long rows", [0, 2], 4, lambda i, new: new(4, 40)[i], BOTH),
        Probe("index of columns", [0, 2], 4, lambda i, new: new(3, 4)[:, i]),
        Probe("index by two", [0, 2], 4,
              lambda i, new: new(4, 3)[i, torch.zeros_like(i)]),
        Probe("index by a second", [0, 2], 4, lambda i, new: new(3, 4)[torch.zeros_like(i), i]),
        Probe("index by a first and a third", [0, 2], 4, lambda i, new: new(3, 2, 4)[1, :, i]),
        Probe("index backward", [0, 2], 4, index_backward),
        Probe("embedding", I2, 4, lambda i, new: F.embedding(i, new(4, 3)), BOTH),
        Probe("embedding backward", I2, 4, lambda i, new: A.embedding_dense_backward(
            new(2, 3, 5), i, 4, -1, False), BOTH),
        Probe("embedding backward by frequency", I2, 4, lambda i, new: A.embedding_dense_backward(
            new(2, 3, 5), i, 4, -1, True), BOTH, follows=True),
        Probe("sparse embedding backward", I2, 4, sparse_backward),
        Probe("embedding with a norm", I2, 4,
              lambda i, new: F.embedding(i, new(4, 3), max_norm=1.0), BOTH),
        *(
            Probe(f"embedding_bag {mode}", I2, 4,
                  lambda i, new, mode=mode: F.embedding_bag(i, new(4, 8), mode=mode), BOTH)
            for mode in ("sum", "mean", "max")
        ),
        Probe("offsets of embedding_bag", [0, 2], 4, lambda i, new: F.embedding_bag(
            torch.tensor([0, 1, 2, 1], device=i.device), new(4, 8), i, mode="sum"), follows=True),
        Probe("first offset of embedding_bag", [0], 4, lambda i, new: F.embedding_bag(
            torch.tensor([0, 1, 2, 1], device=i.device), new(4, 8), i, mode="mean")),
        Probe("per-sample weights of embedding_bag", I2, 4, lambda i, new: F.embedding_bag(
            i, new(4, 8), mode="sum", per_sample_weights=new(2, 3))),
        Probe("searchsorted's sorter", [0, 1, 2], 3, lambda i, new: torch.searchsorted(
            torch.tensor([1.0, 2.0, 3.0], device=i.device), new(5), sorter=i)),
    ]  # fmt: skip


def _writing() -> list[Probe]:
    probes = []
    for dtype in (torch.float32, torch.int64):

        def target(new: Any, dtype: torch.dtype = dtype) -> torch.Tensor:
            return new(4, 3, dtype=dtype)

        def source(new: Any, dtype: torch.dtype = dtype) -> torch.Tensor:
            return new(2, 3, dtype=dtype)

        calls: dict[str, Call] = {
            "scatter_": lambda i, new: target(new).scatter_(0, i, source(new)),
            "scatter_ of a value": lambda i, new: target(new).scatter_(0, i, 7),
            "scatter_ of columns": lambda i, new: new(2, 4).scatter_(1, i, new(2, 3)),
            "scatter_ of repeated rows": lambda i, new: target(new).scatter_(
                0, i[:, 2:].expand(2, 3), source(new)
            ),
            "scatter_add_": lambda i, new: target(new).scatter_add_(0, i, source(new)),
            "scatter_add_ of repeated rows": lambda i, new: target(new).scatter_add_(
                0, i[:, 2:].expand(2, 3), source(new)
            ),
            "scatter_ with add": lambda i, new: target(new).scatter_(
                0, i, source(new), reduce="add"
            ),
            "scatter_ of a value with multiply": lambda i, new: target(new).scatter_(
                0, i, 7, reduce="multiply"
            ),
        }
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            for itself in (True, False):
                calls[f"scatter_reduce_ {reduce} {itself}"] = (
                    lambda i, new, reduce=reduce, itself=itself, target=target, source=source: (
                        target(new).scatter_reduce_(
                            0, i, source(new), reduce=reduce, include_self=itself
                        )
                    )
                )
        probes += [Probe(f"{name} {dtype}", I2, 4, call) for name, call in calls.items()]
    probes += [
        Probe("index_add_", [0, 2], 4, lambda i, new: new(4, 3).index_add_(0, i, new(2, 3)), BOTH),
        Probe("index_add_ of columns", [0, 2], 4,
              lambda i, new: new(3, 4).index_add_(1, i, new(3, 2), alpha=2), BOTH),
        Probe("index_copy_", [0, 2], 4, lambda i, new: new(4, 3).index_copy_(0, i, new(2, 3))),
        *(
            Probe(f"index_reduce_ {reduce}", [0, 2], 4,
                  lambda i, new, reduce=reduce: new(4, 3).index_reduce_(0, i, new(2, 3), reduce))
            for reduce in ("prod", "mean", "amax", "amin")
        ),
        Probe("index_fill_", [0, 2], 4, lambda i, new: new(4, 3).index_fill_(0, i, 7.0)),
        Probe("index_fill_ with a tensor", [0, 2], 4, lambda i, new: new(4, 3).index_fill_(
            0, i, torch.tensor(7.0, device=i.device))),
        Probe("index_put_", [0, 2], 4, lambda i, new: new(4, 3).index_put_((i,), new(2, 3)), BOTH),
        Probe("index_put_ of long rows", [0, 2], 4,
              lambda i, new: new(4, 40).index_put_((i,), new(2, 40)), BOTH),
        Probe("index_put_ of a value", [0, 2], 4,
              lambda i, new: new(4, 3).index_put_((i,), torch.tensor(7.0, device=i.device))),
        Probe("index_put_ accumulating", [0, 2], 4,
              lambda i, new: new(4, 3).index_put_((i,), new(2, 3), accumulate=True), BOTH),
        Probe("index_put_ by two", [0, 2], 4, lambda i, new: new(4, 3).index_put_(
            (i, torch.zeros_like(i)), new(2))),
        Probe("index_put_ by a second", [0, 2], 4, lambda i, new: new(3, 4).index_put_(
            (torch.zeros_like(i), i), new(2), accumulate=True)),
        Probe("put_", [0, 2], 12, lambda i, new: new(4, 3).put_(i, new(2))),
        Probe("put_ accumulating", [0, 2], 12,
              lambda i, new: new(4, 3).put_(i, new(2), accumulate=True)),
        Probe("max_unpool1d", [[0, 3]], 4, lambda i, new: F.max_unpool1d(new(1, 2), i, 2)),
        Probe("max_unpool2d", [[[0, 3]]], 8, lambda i, new: F.max_unpool2d(new(1, 1, 2), i, 2)),
        Probe("max_unpool3d", [[[[0, 3]]]], 16,
              lambda i, new: F.max_unpool3d(new(1, 1, 1, 2), i, 2)),
        Probe("fractional_max_pool2d backward", [[[[0, 5]]]], 12,
              lambda i, new: A.fractional_max_pool2d_backward(
                  new(1, 1, 1, 2), new(1, 1, 3, 4), [2, 2], [1, 2], i), follows=True),
        Probe("max_pool2d backward", [[[[0, 3]]]], 8,
              lambda i, new: A.max_pool2d_with_indices_backward(
                  new(1, 1, 1, 2), new(1, 1, 2, 4), [2, 2], [2, 2], [0, 0], [1, 1], False, i),
              follows=True),
        Probe("max_pool3d backward", [[[[[0, 3]]]]], 8,
              lambda i, new: A.max_pool3d_with_indices_backward(
                  new(1, 1, 1, 1, 2), new(1, 1, 1, 2, 4), [1, 2, 2], [1, 2, 2], [0, 0, 0],
                  [1, 1, 1], False, i), follows=True),
        Probe("adaptive_max_pool2d backward", [[[[0, 3]]]], 8,
              lambda i, new: A.adaptive_max_pool2d_backward(
                  new(1, 1, 1, 2), new(1, 1, 2, 4), i), follows=True),
    ]  # fmt: skip
    return probes


def _targets() -> list[Probe]:
    def backward(name: str, *arguments: Any) -> Call:
        def call(i: torch.Tensor, new: Any) -> Any:
            x = _leaf(new(3, 4))
            return _grads(getattr(F, name)(x, i, *arguments), x)

        return call

    probes = []
    for reduction in ("none", "mean", "sum"):
        probes += [
            Probe(f"nll_loss {reduction}", [0, 1, 3], 4,
                  lambda i, new, r=reduction: F.nll_loss(new(3, 4), i, reduction=r)),
            Probe(f"nll_loss of images {reduction}", [[[0, 1, 3]]], 4,
                  lambda i, new, r=reduction: F.nll_loss(new(1, 4, 1, 3), i, reduction=r)),
            Probe(f"cross_entropy {reduction}", [0, 1, 3], 4,
                  lambda i, new, r=reduction: F.cross_entropy(
                      new(3, 4), i, weight=new(4).abs(), reduction=r)),
            Probe(f"multi_margin_loss {reduction}", [0, 1, 3], 4,
                  lambda i, new, r=reduction: F.multi_margin_loss(new(3, 4), i, reduction=r)),
            Probe(f"multilabel_margin_loss {reduction}", [[0, 1, -1, 2], [3, -1, 0, 0]], 4,
                  lambda i, new, r=reduction: F.multilabel_margin_loss(
                      new(2, 4), i, reduction=r)),
        ]  # fmt: skip
    return [
        *probes,
        Probe("nll_loss backward", [0, 1, 3], 4, backward("nll_loss")),
        Probe("cross_entropy backward", [0, 1, 3], 4, backward("cross_entropy")),
        Probe("cross_entropy with smoothing", [0, 1, 3], 4,
              lambda i, new: F.cross_entropy(new(3, 4), i, label_smoothing=0.1)),
        Probe("multi_margin_loss backward", [0, 1, 3], 4, backward("multi_margin_loss")),
        Probe("only nll_loss backward", [0, 1, 3], 4, lambda i, new: A.nll_loss_backward(
            new(1)[0], new(3, 4), i, None, 1, -100, new(1)[0])),
        Probe("only multi_margin_loss backward", [0, 1, 3], 4,
              lambda i, new: A.multi_margin_loss_backward(
                  new(1)[0], new(3, 4), i, 1, 1.0, None, 1)),
        Probe("one_hot", [0, 1, 3], 4, lambda i, new: F.one_hot(i, 4)),
        Probe("bincount", [0, 1, 3], 4, lambda i, new: torch.bincount(i, minlength=4), BOTH,
              allocates=True),
        Probe("bincount with weights", [0, 1, 3], 4,
              lambda i, new: torch.bincount(i, new(3), minlength=4), BOTH,
              allocates=True),
        Probe("targets of ctc_loss", [[1, 2]], 4, lambda i, new: F.ctc_loss(
            new(5, 1, 4).log_softmax(2), i, [5], [2]), BOTH, follows=True),
        Probe("lengths of inputs of ctc_loss", [5], 6, lambda i, new: F.ctc_loss(
            new(5, 1, 4).log_softmax(2), torch.tensor([[1, 2]], device=i.device), i,
            torch.tensor([2], device=i.device)), BOTH),
        Probe("lengths of targets of ctc_loss", [2], 3, lambda i, new: F.ctc_loss(
            new(5, 1, 4).log_softmax(2), torch.tensor([[1, 2]], device=i.device),
            torch.tensor([5], device=i.device), i), BOTH),
    ]  # fmt: skip


def _lengths() -> list[Probe]:
    return [
        *(
            Probe(f"lengths of segment_reduce {reduce}", [1, 3], 5,
                  lambda i, new, r=reduce: torch.segment_reduce(new(4, 2), r, lengths=i), BOTH)
            for reduce in ("sum", "mean", "max", "min", "prod")
        ),
        Probe("repeat_interleave", [0, 2], 3,
              lambda i, new: new(2).repeat_interleave(i.clamp(max=2**12)), BOTH),
        Probe("repeat_interleave of a known size", [0, 2], 3,
              lambda i, new: new(2).repeat_interleave(i, output_size=2), BOTH),
        Probe("packed sequences", [3, 2], 4, lambda i, new:
              torch.nn.utils.rnn.pack_padded_sequence(new(3, 2, 2), i.cpu()).data),
        Probe("tensor_split", [1, 3], 4, lambda i, new:
              [t.clone() for t in torch.tensor_split(new(4), i.cpu())]),
    ]  # fmt: skip


PROBES = [*_selecting(), *_writing(), *_targets(), *_lengths()]
