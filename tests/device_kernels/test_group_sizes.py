"""Kernels in the forms of GPUs, on devices whose work-groups are no power of two."""

import pytest

from tests.device_kernels.processes import run_program

CALLS = """
import torch
import torch.nn.functional as F
import torch_outboard
from tests.device_kernels import gpu_driver

gpu_driver.use(lanes=int(sys.argv[1]))
device = torch.device("ocl", 0)
torch.manual_seed(0)
A = torch.ops.aten


def t(*sizes):
    return torch.randn(*sizes)


x, wide, tall = t(37, 53), t(3, 1031), t(1031, 3)
image = t(2, 5, 9, 11)
index = torch.tensor([3, 0, 3, 2])
q, k, v = (t(1, 2, 23, 16) for _ in range(3))
CALLS = {
    "sum of rows": (lambda a: a.sum(1), wide), "sum of columns": (lambda a: a.sum(0), tall),
    "large sum": (torch.sum, t(70000)), "var": (lambda a: a.var(1), wide),
    "argmax": (lambda a: a.argmax(1), wide), "softmax": (lambda a: a.softmax(1), wide),
    "softmax of columns": (lambda a: a.softmax(0), tall),
    "softmax backward": (lambda a, b: A._softmax_backward_data(a, b.softmax(1), 1, a.dtype),
                         t(3, 1031), wide),
    "cumsum": (lambda a: a.cumsum(1), wide), "cumsum of columns": (lambda a: a.cumsum(0), tall),
    "long cumsum": (lambda a: a.cumsum(0), torch.randint(-9, 9, (70000,))),
    "cummax": (lambda a: a.cummax(1), wide), "logcumsumexp": (lambda a: a.logcumsumexp(1), x),
    "sort": (lambda a: a.sort(1), wide), "topk": (lambda a: a.topk(7), wide),
    "large topk": (lambda a: a.topk(5), t(70000)), "median": (lambda a: a.median(1), wide),
    "mode": (lambda a: a.mode(1)[0], torch.randint(0, 9, (3, 99))),
    "unique": (lambda a: a.unique(return_counts=True), torch.randint(0, 9, (99,))),
    "nonzero": (lambda a: (a > 0).nonzero(), x),
    "product": (torch.mm, x, t(53, 41)), "products": (torch.bmm, t(3, 17, 29), t(3, 29, 19)),
    "row by matrix": (torch.mm, t(1, 999), t(999, 7)), "dot": (torch.dot, t(9999), t(9999)),
    "convolution backward": (lambda a, b, c: A.convolution_backward(
        a, b, c, [7], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3),
        t(2, 7, 9, 11), image, t(7, 5, 3, 3)),
    "causal attention": (lambda *a: F.scaled_dot_product_attention(*a, is_causal=True), q, k, v),
    "layer_norm": (lambda a: F.layer_norm(a, [1031]), wide),
    "group_norm": (lambda a: F.group_norm(a, 5), image),
    "batch_norm": (lambda a: F.batch_norm(a, None, None, training=True), image),
    "nll_loss": (lambda a: F.cross_entropy(a, torch.arange(37, device=a.device)), x),
    "huber": (F.huber_loss, x, t(37, 53)),
    "embedding_bag": (lambda a: F.embedding_bag(index.to(a.device)[None], a), t(4, 33)),
    "embedding backward": (lambda a: A.embedding_dense_backward(
        a, index.to(a.device), 4, -1, False), t(4, 600)),
    "embedding renorm": (lambda a: F.embedding(index.to(a.device), a.clone(), max_norm=1.0),
                         t(4, 333)),
    "weights of bags": (lambda a, b: A._embedding_bag_per_sample_weights_backward(
        a, b, index.to(a.device), *[index.to(a.device).clamp(0, 1)] * 2, 0), t(2, 33), t(4, 33)),
    "scatter slices": (lambda a: torch.zeros(4, 300, device=a.device).index_add_(
        0, index.to(a.device), a), t(4, 300)),
    "fft": (torch.fft.fft, wide), "cdist": (torch.cdist, t(19, 33), t(23, 33)),
    "segments": (lambda a: torch.segment_reduce(
        a, "sum", lengths=torch.tensor([17, 20], device=a.device)), x),
    "ctc_loss": (lambda a: F.ctc_loss(a.log_softmax(2), torch.tensor([[1, 2, 2]] * 2,
        device=a.device), torch.tensor([20, 19], device=a.device), torch.tensor([3, 2],
        device=a.device)), t(20, 2, 5)),
    "lstm": (lambda a: torch.lstm_cell(a[:, :20], [a[:, :32], a[:, 20:52]], t_ih.to(a.device),
                                       t_hh.to(a.device)), x),
    "weight_norm": (lambda a, b: torch._weight_norm_interface(a, b, 0), x, t(37, 1)),
    "foreach": (lambda a: torch._foreach_norm([a, a[1]]), x),
}
t_ih, t_hh = t(128, 20), t(128, 32)


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


wrong = []
for name, (function, *arguments) in CALLS.items():
    try:
        got = flat(function(*(a.to(device) for a in arguments)))
        expected = flat(function(*arguments))
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=2e-4, atol=2e-4)
    except Exception as error:
        wrong.append(f"{name}: {type(error).__name__} {error}")
drawn = torch.randn(5000, device=device)
if not abs(drawn.mean().item()) < 0.1:
    wrong.append("randn")
print(len(CALLS), "calls")
print("\\n".join(wrong), end="")
"""


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [12, 192])
def test_groups_of_any_size(device, lanes):
    printed = run_program(CALLS, str(lanes), timeout=600, OUTBOARD_DRIVER="ocl").splitlines()
    assert int(printed[0].split()[0]) >= 14
    assert not printed[1:], "\n".join(printed[1:])


LANES_OF_A_ROW = """
import torch
import torch_outboard
from tests.device_kernels import gpu_driver
from torch_outboard import Launch

gpu_driver.use(lanes=64)
torch.library.define("mylib::lanes", "(Tensor x) -> Tensor")
torch_outboard.kernel(
    "mylib::lanes",
    source='''
        __kernel void lanes(OB_PARAMETERS) {
          OB_BEGIN
          OB_FOR_GROUPS(group) {
            if (OB_LANE == 0) out_store(group, OB_LOCAL * 1000 + get_local_size(0));
          }
        }
    ''',
    launches=Launch("lanes", items="numel(x)", groups=True),
    most_lanes="group_lanes // numel(x)",
    constants={"OB_REGISTERS": "128"},
)
for size in (1, 2, 100):
    print(int(torch.ops.mylib.lanes(torch.zeros(size, device="ocl"))[-1]))
"""


def test_a_row_limits_its_groups(device):
    printed = run_program(LANES_OF_A_ROW, timeout=300, OUTBOARD_DRIVER="ocl").split()
    assert printed == ["64064", "32032", "1001"]
