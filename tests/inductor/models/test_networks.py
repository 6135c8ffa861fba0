"""Networks of torch's own layers and losses, compiled, against eager CPU."""

import pytest
import torch

from tests.inductor.models.networks import NETWORKS
from tests.inductor.models.programs import How, calls, in_pieces
from tests.programs.comparison import compare

pytestmark = pytest.mark.by_turns(2)

HOW = {
    "training": How(options={"fullgraph": True}),
    "autocast": How(autocast=torch.bfloat16, relative=2e-2),
    "dynamic": How(dynamic=True, options={"dynamic": True}),
    "reduce-overhead": How(options={"mode": "reduce-overhead"}),
    "max-autotune": How(options={"mode": "max-autotune-no-cudagraphs"}),
    "inference": How(options={"fullgraph": True}, inference=True),
    "inference, replayed": How(options={"mode": "reduce-overhead"}, inference=True),
}
# Whose batches come in several lengths.
SEQUENCES = {"perceptron", "embeddings", "Transformer", "TransformerEncoder"}
# Layers that Dynamo leaves to eager mode unless told otherwise.
IN_PIECES = {"LSTM", "GRU", "RNN"}
# Of `make test`.
FEW = {("embeddings", "training"), ("TransformerEncoder", "inference")}
CASES = [
    pytest.param(name, how, marks=[] if (name, how) in FEW else pytest.mark.slow)
    for name in NETWORKS
    for how in HOW
    if how != "dynamic" or name in SEQUENCES
]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_network(name: str, how: str, device: torch.device):
    network, described = NETWORKS[name], HOW[how]
    if name in IN_PIECES:
        described = in_pieces(described)
    compare(calls(network.make, network.batch, described), device, False, described.relative)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("GRU", "inference"),
        *(
            pytest.param(name, "training", marks=pytest.mark.slow)
            for name in ("RNN", "GRU", "LSTM")
        ),
    ],
)
def test_recurrent_layers_within_the_graph(name: str, how: str, device: torch.device):
    """As steps one after the other, by PyTorch's decomposition."""
    network, described = NETWORKS[name], HOW[how]
    with torch._dynamo.config.patch(allow_rnn=True):
        compare(calls(network.make, network.batch, described), device, False, described.relative)
