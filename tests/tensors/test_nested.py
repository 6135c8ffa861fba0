"""Nested tensors of the device, strided and jagged, are what they are on CPU."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional

from torch_outboard import fallback

pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:.* runs as a host kernel"),
]
STRIDED, JAGGED = torch.strided, torch.jagged


@pytest.fixture(params=[STRIDED, JAGGED], ids=str)
def layout(request):
    return request.param


def rows():
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(length, 4, generator=generator) for length in (2, 3)]


def nested(location, layout, **options):
    return torch.nested.nested_tensor(
        [row.to(location) for row in rows()], layout=layout, **options
    )


def compare(found, expected, device):
    if not expected.is_nested:
        torch.testing.assert_close(found.cpu(), expected)
        return
    assert (found.is_nested, found.device, found.layout) == (True, device, expected.layout)
    for ours, theirs in zip(found.unbind(), expected.unbind(), strict=True):
        assert ours.device == device
        torch.testing.assert_close(ours.cpu(), theirs)


def test_made_moved_saved_and_printed(device, layout):
    expected = nested("cpu", layout)
    for made in (
        nested(device, layout),
        torch.nested.nested_tensor(rows(), layout=layout, device=device),
        torch.nested.as_nested_tensor([row.to(device) for row in rows()], layout=layout),
        expected.to(device),
    ):
        compare(made, expected, device)
        compare(made.cpu(), expected, torch.device("cpu"))
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    compare(torch.load(file, weights_only=False), expected, device)
    assert "ested" in repr(made)
    assert str(device) in repr(made) or layout is STRIDED
    if layout is STRIDED:  # its parts share its memory
        made.unbind()[1].fill_(7)
        made.transpose(1, 2)[0].fill_(5)
        assert [row.unique().tolist() for row in made.cpu().unbind()] == [[5.0], [7.0]]


# Strided ones have kernels for nested tensors; jagged ones decompose into operators on dense ones.
CALLS = {
    "add": lambda x: x + x,
    "gelu": functional.gelu,
    "softmax": lambda x: x.softmax(-1),
    "select": lambda x: x[0],
    "padded": lambda x: torch.nested.to_padded_tensor(x, 0.5),
    "transpose": lambda x: x.transpose(1, 2).transpose(1, 2).contiguous(),
    "clone": torch.clone,
    "double": lambda x: x.double(),
    "chunk": lambda x: x.chunk(2, -1)[0],
    "copy_": lambda x: torch.zeros_like(x).copy_(x),
    "values": lambda x: x.values(),
    "layer_norm": lambda x: functional.layer_norm(
        x, (4,), torch.ones(4, device=x.device), torch.zeros(4, device=x.device)
    ),
    "attention": lambda x: functional.scaled_dot_product_attention(
        *[x.unflatten(-1, (2, 2)).transpose(1, 2) if x.layout == JAGGED else x] * 3
    ),
    "mul_": lambda x: x.clone().mul_(2),
    "fill_": lambda x: x.clone().fill_(2.0),
    "bmm": lambda x: torch.matmul(x, x.transpose(1, 2)),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "sizes": lambda x: x._nested_tensor_size(),
}


@pytest.mark.parametrize(
    ("layout", "call"),
    [(STRIDED, call) for call in CALLS]
    + [(JAGGED, call) for call in ("padded", "copy_", "values", "attention")],
    ids=str,
)
def test_operators(device, layout, call):
    function = CALLS[call]
    compare(function(nested(device, layout)), function(nested("cpu", layout)), device)


def test_gradients(device, layout):
    def gradients(location):
        torch.manual_seed(0)
        layer = nn.Linear(4, 4).to(location)
        x = nested(location, layout, requires_grad=True)
        torch.nested.to_padded_tensor(layer(x).relu(), 0.0).sum().backward()
        return [layer.weight.grad.cpu(), *(row.cpu() for row in x.grad.unbind())]

    torch.testing.assert_close(gradients(device), gradients("cpu"))


def test_gradients_where_nothing_may_run_on_the_host(device):
    """Autograd asks for sizes where an exception would end the process."""
    x = nested(device, STRIDED, requires_grad=True)
    with fallback.policy(host="error", copied="error"):
        assert (x.unbind()[0].requires_grad, x.dim()) == (True, 3)


def test_encoder_makes_nested_tensors_of_masks(device):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    x = torch.randn(2, 3, 4)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    with torch.inference_mode():
        expected = encoder(x, src_key_padding_mask=mask)
        ours = copy.deepcopy(encoder).to(device)
        found = ours(x.to(device), src_key_padding_mask=mask.to(device))
    torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_what_has_no_kernel_is_a_sentence(device):
    with pytest.raises(
        NotImplementedError,
        match=r"was asked for with nested tensors on \w+:0, and neither the device nor the "
        "CPU has a kernel",
    ):
        torch.sort(nested(device, STRIDED))
