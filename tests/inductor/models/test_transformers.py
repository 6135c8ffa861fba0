"""Models of transformers, compiled, against eager CPU: `make test-libraries`."""

from collections.abc import Iterable

import pytest
import torch

from tests.inductor.models.architectures import ARCHITECTURES, WORDS
from tests.inductor.models.programs import How, calls, generation, in_pieces
from tests.programs.comparison import compare

pytest.importorskip("transformers")

ALL = tuple(ARCHITECTURES)
# PyTorch's compiler makes several graphs of these, on any device.
IN_PIECES = {"Longformer", "Mixtral", "wav2vec 2.0"}
WITH_FLEX_ATTENTION = ("BERT", "Llama", "Mistral", "Gemma 2")
WITH_CHECKPOINTS = ("BERT", "GPT-2", "Llama", "Mixtral", "T5", "ViT", "Whisper")
GENERATING = ("GPT-2", "Llama", "Mistral", "Gemma 2", "T5")
OF_ANY_LENGTH = ("BERT", "DeBERTa", "GPT-2", "Llama", "Mistral", "Gemma 2", "Falcon", "T5")
SEVERAL = ("BERT", "GPT-2", "Llama", "Gemma 2", "Mixtral", "T5", "ViT", "ConvNeXt", "Whisper")
# In bfloat16 experts have equal scores, and which is taken is left to the device.
TIED = {"Mixtral"}

# How, with which models, and which of them `make test-libraries` runs.
HOW: dict[str, tuple[How, Iterable[str], set[str]]] = {
    "training": (
        How(options={"fullgraph": True}), ALL, {"BERT", "GPT-2", "Llama", "T5", "ViT", "Mixtral"},
    ),
    "inference": (How(inference=True), ALL, {"Whisper", "Mamba", "DeBERTa"}),
    "autocast": (
        How(autocast=torch.bfloat16, relative=3e-2), [name for name in SEVERAL if name not in TIED],
        {"Gemma 2"},
    ),
    "dynamic": (How(dynamic=True, inference=True), OF_ANY_LENGTH, {"Llama"}),
    "dynamic training": (How(dynamic=True), OF_ANY_LENGTH, {"BERT"}),
    "eager attention": (How(attention="eager"), WITH_FLEX_ATTENTION, set()),
    "flex_attention": (How(attention="flex_attention"), WITH_FLEX_ATTENTION, {"Llama"}),
    "checkpointing": (How(checkpointing=True), WITH_CHECKPOINTS, {"Llama"}),
    "reduce-overhead": (How(options={"mode": "reduce-overhead"}), SEVERAL, {"ViT"}),
    "max-autotune": (
        How(options={"mode": "max-autotune-no-cudagraphs"}), SEVERAL, set(),
    ),
}  # fmt: skip


def chosen(names: Iterable[str], few: set[str]) -> list[object]:
    return [
        pytest.param(name, marks=[] if name in few else pytest.mark.slow, id=name) for name in names
    ]


@pytest.mark.parametrize(
    ("how", "name"),
    [
        pytest.param(how, *case.values, marks=case.marks)
        for how, (_, names, few) in HOW.items()
        for case in chosen(names, few)
    ],
)
def test_model(how: str, name: str, device: torch.device):
    model, (described, _, _) = ARCHITECTURES[name], HOW[how]
    if name in IN_PIECES:
        described = in_pieces(described)
    compare(calls(model.made, model.batch, described), device, False, described.relative)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("name", chosen(GENERATING, {"Llama"}))
def test_generation(name: str, mode: str, device: torch.device):
    made = ARCHITECTURES[name].made
    compare(generation(made, How(options={"mode": mode}), WORDS), device, False)
