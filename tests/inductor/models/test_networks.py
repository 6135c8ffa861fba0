"""Networks of torch's own layers and losses, compiled, against eager CPU."""

from __future__ import annotations

import pytest
import torch

from tests.inductor.models.networks import NETWORKS
from tests.inductor.models.programs import How, calls
from tests.programs.comparison import compare

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
SEQUENCES = {
    "perceptron", "embeddings", "distributions", "losses", "MultiheadAttention", "Transformer",
    "TransformerEncoder", "TransformerEncoder, padded",
}  # fmt: skip
# A few of `make test`.
FEW = {
    ("embeddings", "training"),
    ("TransformerEncoder, padded", "inference"),
    ("perceptron", "reduce-overhead"),
}


def cases() -> list[object]:
    every = [
        (name, how) for name in NETWORKS for how in HOW if how != "dynamic" or name in SEQUENCES
    ]
    return [pytest.param(*case, marks=[] if case in FEW else pytest.mark.slow) for case in every]


@pytest.mark.parametrize(("name", "how"), cases())
def test_network(name: str, how: str, device: torch.device):
    network = NETWORKS[name]
    compare(calls(network.make, network.batch, HOW[how]), device, False, HOW[how].relative)
