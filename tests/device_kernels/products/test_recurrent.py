"""LSTM and GRU cells as one kernel each, against CPU's layers and against the decomposed cells.

Layers of LSTM as launches for steps in time.
"""

import copy

import pytest
import torch
from torch.testing import assert_close

import torch_outboard
from torch_outboard import fallback, placement

CELLS = {
    torch.nn.LSTM: ("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl"),
    torch.nn.GRU: ("aten::_thnn_fused_gru_cell", "aten::_thnn_fused_gru_cell_backward"),
}


def run(layer, sequence):
    """Outputs, last states, and gradients of all, the first states' included."""
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    batch = sequence.shape[0 if layer.batch_first else 1]
    is_lstm = isinstance(layer, torch.nn.LSTM)
    torch.manual_seed(1)
    states = [torch.randn(count, batch, layer.hidden_size) for _ in range(2 if is_lstm else 1)]
    states = [s.to(sequence).requires_grad_() for s in states]
    sequence = sequence.detach().requires_grad_()
    output, last = layer(sequence, states if is_lstm else states[0])
    results = (output, *last) if is_lstm else (output, last)
    total = sum((s * s.detach().cos()).sum() for s in results)
    gradients = torch.autograd.grad(total, [sequence, *states, *layer.parameters()])
    return [t.detach().cpu() for t in (*results, *gradients)]


def check(device, layer, sequence):
    actual = run(copy.deepcopy(layer).to(device), sequence.to(device))
    for want, got in zip(run(layer, sequence), actual, strict=True):
        assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize(
    ("hidden", "bias", "dtype"),
    [(20, True, torch.float32), (3, False, torch.float64)],
)
def test_training(device, kind, hidden, bias, dtype):
    layer = kind(6, hidden, num_layers=2, bias=bias, dtype=dtype)
    # Otherwise LSTM layers are not decomposed.
    with fallback.report() as report, torch.backends.mkldnn.flags(enabled=False):
        check(device, layer, torch.randn(5, 4, 6, dtype=dtype))
    taken = {row.op: row.placement for row in report.rows}
    assert {taken[op] for op in CELLS[kind]} == {"device"}


@pytest.mark.parametrize(
    ("kind", "decomposed"), [(torch.nn.LSTM, True), (torch.nn.GRU, True), (torch.nn.LSTM, False)]
)
def test_a_forward_at_one_placement_and_its_backward_at_the_other(
    device, shares_memory, kind, decomposed
):
    """Workspaces of cells fit those of decomposed ones; those of layers differ."""
    if not decomposed and not (shares_memory and torch.backends.mkldnn.is_available()):
        pytest.skip("the host cannot run layers")
    dtype = torch.bfloat16 if decomposed else torch.float32
    layer = kind(6, 20, dtype=dtype).to(device)
    sequence = torch.randn(3, 4, 6, dtype=dtype).to(device).requires_grad_()
    found = []
    with torch.backends.mkldnn.flags(enabled=not decomposed):
        for forward, backward in (("device", "device"), ("device", "host"), ("host", "device")):
            with placement.use(forward):
                total = layer(sequence)[0].float().square().sum()
            with placement.use(backward):
                found.append(torch.autograd.grad(total, [sequence, *layer.parameters()]))
    near = {"rtol": 0.05, "atol": 0.02} if decomposed else {"rtol": 1e-4, "atol": 1e-5}
    for gradients in found[1:]:
        assert_close(gradients, found[0], **near)


STEPS = ("outboard_layers::lstm_steps", "outboard_layers::lstm_steps_backward")


@pytest.fixture
def by_steps(device):
    """Forces device kernels, and holds that layers ran by them."""
    with placement.use("device"), fallback.report() as report:
        yield
    taken = {row.op: row.placement for row in report.rows}
    assert {taken.get(op) for op in STEPS} == {"device"}
    assert "aten::_thnn_fused_lstm_cell" not in taken


@pytest.mark.slow
def test_gradcheck(device, by_steps):
    for kind in CELLS:
        layer = kind(3, 4, dtype=torch.float64).to(device)
        sequence = torch.randn(2, 2, 3, dtype=torch.float64).to(device).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, layer=layer: layer(x)[0], [sequence])
        assert torch.autograd.gradgradcheck(lambda x, layer=layer: layer(x)[0], [sequence])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    ("steps", "batch", "inputs", "hidden"),
    [(5, 4, 6, 8), (3, 9, 5, 70), (1, 1, 1, 1), (4, 3, 33, 19)],
)
def test_layers(device, by_steps, bias, bidirectional, batch_first, steps, batch, inputs, hidden):
    """Whole vectors and less than one, rows of the batch that four do not divide."""
    options = {"bias": bias, "bidirectional": bidirectional, "batch_first": batch_first}
    layer = torch.nn.LSTM(inputs, hidden, num_layers=2, **options)
    check(device, layer, torch.randn(steps, batch, inputs))


@pytest.mark.parametrize("enough", [True, False])
def test_rows_for_all_processors(device, request, enough):
    """Then all steps are one launch on a processor, else each has the values of a row in parts."""
    processors = torch.get_device_module(device).get_device_properties(0).multi_processor_count
    if processors > 64:
        pytest.skip("the batch would be large")
    request.getfixturevalue("by_steps")
    batch = 4 * processors + 1 if enough else 1
    check(device, torch.nn.LSTM(5, 140, num_layers=2), torch.randn(3, batch, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_layers_of_other_dtypes(device, by_steps, dtype):
    layer = torch.nn.LSTM(6, 20, dtype=dtype)
    sequence = torch.randn(5, 4, 6, dtype=dtype)
    actual = run(copy.deepcopy(layer).to(device), sequence.to(device))
    expected = run(copy.deepcopy(layer).double(), sequence.double())
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 0.1, "atol": 0.05}
    for want, got in zip(expected, actual, strict=True):
        assert got.dtype == dtype
        assert_close(got.double(), want, **close)


def test_gradients_of_one_result(device, by_steps):
    def gradient(layer, x, used):
        x = x.detach().requires_grad_()
        output, (hidden, cells) = layer(x)
        result = (output, hidden, cells)[used]
        return torch.autograd.grad(result.sin().sum(), [x, *layer.parameters()])

    layer, sequence = torch.nn.LSTM(6, 8), torch.randn(5, 4, 6)
    moved = copy.deepcopy(layer).to(device)
    for used in range(3):
        expected = gradient(layer, sequence, used)
        for want, got in zip(expected, gradient(moved, sequence.to(device), used), strict=True):
            assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_biases_have_gradients_of_their_own(device, by_steps):
    layer = torch.nn.LSTM(6, 8).to(device)
    layer(torch.randn(5, 4, 6, device=device))[0].sum().backward()
    expected = layer.bias_hh_l0.grad.clone()
    layer.bias_ih_l0.grad.zero_()
    assert torch.equal(layer.bias_hh_l0.grad, expected)


@pytest.mark.parametrize("setting", placement.PLACEMENTS)
def test_a_layer_runs_where_its_device_does(device, shares_memory, setting):
    """By steps of device kernels, or by one call of oneDNN on the host."""
    layer, sequence = torch.nn.LSTM(6, 20).to(device), torch.randn(5, 4, 6, device=device)
    expected = copy.deepcopy(layer).cpu()(sequence.cpu())[0]
    with placement.use(setting), fallback.report() as report:
        on_device = placement.runs_on_device(device)
        output = layer(sequence)[0]
    seen = {row.op for row in report.rows}
    one_call = not on_device and shares_memory and torch.backends.mkldnn.is_available()
    assert ("aten::mkldnn_rnn_layer" in seen) == one_call
    assert ("outboard_layers::lstm_steps" in seen) == on_device
    assert ("aten::_thnn_fused_lstm_cell" in seen) == (not on_device and not one_call)
    assert_close(output.cpu(), expected)


def test_a_kernel_of_a_user_serves_layers(device):
    """And not the kit's steps."""
    layer = torch.nn.LSTM(6, 8).to(device)
    sequence = torch.randn(5, 4, 6, device=device)

    def zeros(input, weight_ih, weight_hh, bias_ih, bias_hh, hx, cx, *rest):
        output = input.new_zeros(*input.shape[:2], 8)
        return output, hx, cx, input.new_zeros(0, dtype=torch.uint8)

    handle = torch_outboard.kernel("mkldnn_rnn_layer")(zeros)
    try:
        with torch.no_grad():
            assert not layer(sequence)[0].any()
    finally:
        handle.remove()
    with torch.no_grad():
        assert layer(sequence)[0].any()
