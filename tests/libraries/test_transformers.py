"""transformers: training, generation, pipelines, and its `Trainer`."""

from __future__ import annotations

import pytest
import torch

from tests.libraries.models import MODELS, made, trained, words

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", MODELS)
def test_transformers(same_as_on_cpu, name):
    def program(run):
        model = run.on_device(made(name))
        if name == "Mixtral" and run.exact:  # grouped products know no float64
            model.set_experts_implementation("eager")
        yield from trained(run, model, MODELS[name][3])

    same_as_on_cpu(program, bitwise=name != "Whisper")  # its GELU is oneDNN's on CPU


@pytest.mark.parametrize("name", ["GPT-2", "LLaMA", "Mamba"])
def test_generation(same_as_on_cpu, name):
    """Word by word with the library's own caches; without drawing, so the words are the same."""

    def program(run):
        model = run.on_device(made(name)).eval()
        for _ in range(3):
            start = words(run, 2, 4)
            result = model.generate(
                start,
                attention_mask=torch.ones_like(start),
                max_new_tokens=8,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
            yield {"words": result.sequences, "scores": result.logits}

    same_as_on_cpu(program)


def test_pipeline(device, tmp_path):
    """Text in, text out, with a tokenizer of a few words."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(39)} | {"?": 39}, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="?")
    found = {}
    for place in ("cpu", device):
        torch.manual_seed(0)
        generate = transformers.pipeline(
            "text-generation", model=made("GPT-2").eval(), tokenizer=fast, device=place
        )
        assert generate.model.device.type == torch.device(place).type
        found[place] = generate("w1 w2 w3", max_new_tokens=6, do_sample=False, pad_token_id=39)
    assert found["cpu"] == found[device]


@pytest.mark.parametrize("place", ["name", "map"])
def test_device_map(device, place, tmp_path):
    import transformers

    torch.manual_seed(0)
    made("GPT-2").save_pretrained(tmp_path)
    wanted = device if place == "name" else {"": device}
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, device_map=wanted)
    assert {p.device for p in model.parameters()} == {device}


def texts(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    drawn = torch.randint(3, 40, (count, 8), generator=generator)
    return [{"input_ids": row, "labels": row} for row in drawn]


TRAINER = """
import sys
import torch
import torch_outboard.integrations
from tests.libraries.test_transformers import made, texts

device, mixed = sys.argv[1:]
if device != "cpu":
    torch_outboard.integrations.enable("accelerate")
import transformers

torch.manual_seed(0)
model = made("GPT-2")
settings = transformers.TrainingArguments(
    output_dir=".", report_to=[], max_steps=20, per_device_train_batch_size=4, logging_steps=1,
    save_strategy="no", disable_tqdm=True, seed=3, use_cpu=device == "cpu",
    optim="adamw_torch",
)
trainer = transformers.Trainer(model=model, args=settings, train_dataset=texts(80))
trainer.train()
assert {p.device.type for p in model.parameters()} == {device}, device
assert trainer.accelerator.mixed_precision == mixed
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
"""


def losses_of_trainer(device: str, mixed: str, folder, monkeypatch) -> torch.Tensor:
    from tests.libraries.models import ROOT
    from tests.support import run_python

    out = run_python(
        f"import sys; sys.path.append({str(ROOT)!r}); import os; os.chdir({str(folder)!r})\n"
        + TRAINER,
        device,
        mixed,
        timeout=300,
        ACCELERATE_MIXED_PRECISION=mixed,
    )
    return torch.tensor(eval(out.strip().splitlines()[-1]))


@pytest.mark.parametrize("mixed", ["no", "bf16"])
def test_trainer(device, mixed, tmp_path, monkeypatch):
    """Its own argument bf16 asks for devices by name; the variable of accelerate does not."""
    ours = losses_of_trainer(device.type, mixed, tmp_path, monkeypatch)
    theirs = losses_of_trainer("cpu", mixed, tmp_path, monkeypatch)
    assert len(ours) == 20
    torch.testing.assert_close(ours, theirs, rtol=2e-2 if mixed == "bf16" else 1e-4, atol=1e-4)


def test_what_the_trainer_refuses(device):
    """Names of devices in the library: what README.md says of it."""
    import transformers

    with pytest.raises(ValueError, match="bf16/gpu"):
        transformers.TrainingArguments(output_dir=".", report_to=[], bf16=True)


def test_what_takes_the_cpu_silently(device, tmp_path):
    """Names of devices in the library: what README.md says of it."""
    import transformers

    torch.manual_seed(0)
    made("GPT-2").save_pretrained(tmp_path)
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, device_map="auto")
    assert model.device.type == "cpu"
