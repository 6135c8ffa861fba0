"""LSTM layers that the host runs on the device's memory, each by one call of oneDNN."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch.testing import assert_close

import torch_outboard
from tests.device_kernels.conftest import placements_of
from tests.device_kernels.products.test_recurrent import run
from torch_outboard import fallback, placement

LAYER = ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward")


@pytest.fixture(autouse=True)
def on_the_host(shares_memory: bool) -> Iterator[None]:
    if not shares_memory:
        pytest.skip(
            "the host does not reach the device's memory, so layers are decomposed into cells"
        )
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    with placement.use("host"):
        yield


@pytest.mark.parametrize(
    ("bias", "bidirectional", "batch_first", "train"),
    [
        (True, True, True, True),
        (False, True, False, False),
        (True, False, False, True),
        (False, False, True, False),
    ],
)
def test_values_and_gradients(
    device: torch.device, bias: bool, bidirectional: bool, batch_first: bool, train: bool
) -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(
        6, 8, num_layers=2, bias=bias, bidirectional=bidirectional, batch_first=batch_first
    ).train(train)
    sequence = torch.randn(5, 4, 6)
    moved = copy.deepcopy(layer).to(device)
    with fallback.report() as report:
        actual = run(moved, sequence.to(device))
    for want, got in zip(run(layer, sequence), actual, strict=True):
        assert got.stride() == want.stride()
        assert_close(got, want)
    assert {placements_of(report)[op] for op in LAYER} == {"host"}
    assert "aten::_thnn_fused_lstm_cell" not in placements_of(report)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), fallback.report() as report:
            actual = moved(sequence.to(device))[0].cpu()
            assert_close(actual, layer(sequence)[0])
        assert LAYER[0] in placements_of(report)


def test_second_derivatives(device: torch.device) -> None:
    def second(layer: torch.nn.LSTM, sequence: torch.Tensor) -> torch.Tensor:
        sequence.requires_grad_()
        total = layer(sequence)[0].square().sum()
        (first,) = torch.autograd.grad(total, sequence, create_graph=True)
        return torch.autograd.grad(first.square().sum(), sequence)[0].cpu()

    torch.manual_seed(0)
    layer, sequence = torch.nn.LSTM(6, 8), torch.randn(5, 4, 6)
    moved = copy.deepcopy(layer).to(device)
    assert_close(second(moved, sequence.to(device)), second(layer, sequence))


def test_dropout_draws_as_between_decomposed_layers(device: torch.device) -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(6, 8, num_layers=3, dropout=0.5, bidirectional=True).to(device)
    sequence = torch.randn(5, 4, 6, device=device)
    torch.manual_seed(1)
    fused = layer(sequence)[0]
    torch.manual_seed(1)
    with torch.backends.mkldnn.flags(enabled=False):
        decomposed = layer(sequence)[0]
    assert fused.grad_fn.name() == decomposed.grad_fn.name()  # the concatenation
    assert_close(fused, decomposed)


def is_decomposed(layer: torch.nn.LSTM, sequence: torch.Tensor) -> bool:
    with fallback.report() as report:
        layer(sequence)
    return LAYER[0] not in placements_of(report)


def test_what_is_left_to_cells(device: torch.device) -> None:
    sequence = torch.randn(5, 4, 6, device=device)
    layer = torch.nn.LSTM(6, 8).to(device)
    assert not is_decomposed(layer, sequence)
    assert is_decomposed(torch.nn.LSTM(6, 8, proj_size=3).to(device), sequence)
    assert is_decomposed(copy.deepcopy(layer).double(), sequence.double())
    assert is_decomposed(layer, sequence[:, :0])
    with torch.autocast(device.type, torch.bfloat16):
        assert is_decomposed(layer, sequence)
    with torch.backends.mkldnn.flags(enabled=False):
        assert is_decomposed(layer, sequence)
    fallback.deny("mkldnn_rnn_layer")
    try:
        assert is_decomposed(layer, sequence)
    finally:
        fallback.unlist("mkldnn_rnn_layer")


def test_wrong_shapes_are_refused(device: torch.device) -> None:
    """oneDNN would read past the end of them."""
    sequence = torch.randn(5, 4, 6, device=device)
    parameters = [p.detach() for p in torch.nn.LSTM(6, 8).to(device).parameters()]
    state = torch.zeros(1, 4, 8, device=device)

    def call(x: torch.Tensor, states: list[torch.Tensor], weights: list[torch.Tensor]) -> None:
        torch.lstm(x, states, weights, True, 1, 0.0, True, False, False)

    call(sequence, [state, state], parameters)
    for index in range(4):
        short = [p[:-8] if i == index else p for i, p in enumerate(parameters)]
        with pytest.raises(RuntimeError):
            call(sequence, [state, state], short)
    for states in ([state[:, :3], state], [state, state[:, :3]], [state], [state[0], state[0]]):
        with pytest.raises((RuntimeError, IndexError)):
            call(sequence, states, parameters)
    with pytest.raises(RuntimeError):
        call(sequence, [state.cpu(), state], parameters)


def test_a_kernel_of_a_user_serves_calls_without_gradients(device: torch.device) -> None:
    layer, sequence = torch.nn.LSTM(6, 8).to(device), torch.randn(5, 4, 6, device=device)

    def zeros(x, states, *rest):
        return torch.zeros_like(x), states[0], states[1]

    handle = torch_outboard.kernel("lstm.input")(zeros)
    try:
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert not layer(sequence)[0].any()
        assert layer(sequence)[0].any()
    finally:
        handle.remove()
    with torch.no_grad():
        assert layer(sequence)[0].any()


def test_traced_programs_see_cells(device: torch.device) -> None:
    """Where layers run is not known before a traced program does."""
    from torch._functorch.aot_autograd import aot_function, make_boxed_func

    seen: set[str] = set()

    def note(graph: torch.fx.GraphModule, inputs: object) -> object:
        seen.update(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    torch.manual_seed(0)
    layer, sequence = torch.nn.LSTM(6, 8).to(device), torch.randn(5, 4, 6, device=device)
    weights = [p.detach() for p in layer.parameters()]
    state = torch.zeros(1, 4, 8, device=device)
    rest = (True, 1, 0.0, True, False, False)
    traced = aot_function(lambda x, h, *w: torch.lstm(x, (h, h), w, *rest)[0], note)
    assert_close(traced(sequence, state, *weights), layer(sequence)[0].detach())
    assert "aten.sigmoid.default" in seen
    assert not {"aten.lstm.input", "aten.mkldnn_rnn_layer.default"} & seen
