"""transformers: training, generation, pipelines, and its `Trainer`."""

import pytest
import torch

from tests.inductor.models.architectures import ARCHITECTURES, words
from tests.libraries.enabled import same_losses, shown
from tests.libraries.models import made, trained

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", ["GPT-2", "T5", "Whisper", "Mamba", "Mixtral", "Llama"])
def test_transformers(same_as_on_cpu, name):
    def program(run):
        model = run.on_device(made(name))
        if name == "Mixtral" and run.exact:  # grouped products know no float64
            model.set_experts_implementation("eager")
        yield from trained(run, model, ARCHITECTURES[name].batch)

    same_as_on_cpu(program, bitwise=name != "Whisper")  # its GELU is oneDNN's on CPU


@pytest.mark.parametrize("name", ["GPT-2", "Mamba"])
def test_generation(same_as_on_cpu, name):
    """Word by word with the library's own caches; without drawing, so the words are the same."""

    def program(run):
        model = run.on_device(made(name)).eval()
        for _ in range(3):
            start = words(2, 4).to(run.device)
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


def text_generation(model: torch.nn.Module, **options):
    """A pipeline with a tokenizer of a few words."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(39)} | {"?": 39}, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="?")
    return transformers.pipeline("text-generation", model=model, tokenizer=fast, **options)


PIPELINE = """
from tests.libraries.test_transformers import made, text_generation
used, texts = set(), []
ours = {}, {"device": 0}, {"device": where}
for choice in ours if where != "cpu" else [{"device": -1}] * 3:
    torch.manual_seed(0)
    generate = text_generation(made("GPT-2").eval(), **choice)
    used.add(generate.model.device.type)
    texts.append(generate("w1 w2 w3", max_new_tokens=6, do_sample=False, pad_token_id=39))
if where != "cpu":
    assert text_generation(made("GPT-2"), device=-1).model.device.type == "cpu"
(used,) = used
shown = used, texts
"""


def test_pipeline_without_a_device(device, tmp_path):
    used, ours = shown(PIPELINE, device.type, "transformers", tmp_path)
    assert used == device.type
    assert (("cpu", ours)) == shown(PIPELINE, "cpu", "transformers", tmp_path)


AUTOMATIC = """
from tests.libraries.test_transformers import made
import transformers
made("GPT-2").save_pretrained("model")
model = transformers.GPT2LMHeadModel.from_pretrained("model", device_map=settings[0])
x = torch.arange(5)[None]
scores = model(x).logits if where == "cpu" else model(x.to(where)).logits
shown = model.device.type, scores.tolist()
"""


@pytest.mark.parametrize("location", ["auto", "sequential"])
def test_automatic_device_map(device, tmp_path, location):
    same_losses(AUTOMATIC, device, "transformers", tmp_path, location)


def texts(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    drawn = torch.randint(3, 40, (count, 8), generator=generator)
    return [{"input_ids": row, "labels": row} for row in drawn]


TRAINER = """
from tests.libraries.test_transformers import made, texts
import transformers

mixed = settings[0]
model = made("GPT-2")
settings = transformers.TrainingArguments(
    output_dir=".", report_to=[], max_steps=20, per_device_train_batch_size=4, logging_steps=1,
    save_strategy="no", disable_tqdm=True, seed=3, use_cpu=where == "cpu",
    optim="adamw_torch", bf16=mixed == "bf16", fp16=mixed == "fp16" and where != "cpu",
)
trainer = transformers.Trainer(model=model, args=settings, train_dataset=texts(80))
trainer.train()
if where != "cpu":
    assert trainer.accelerator.mixed_precision == mixed
    assert (trainer.accelerator.scaler is not None) == (mixed == "fp16")
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
shown = next(model.parameters()).device.type, losses
"""


@pytest.mark.parametrize("mixed", ["no", "bf16", "fp16"])
def test_trainer(device, mixed, tmp_path):
    closeness = {} if mixed == "no" else {"rtol": 2e-2, "atol": 1e-4}
    same_losses(TRAINER, device, "transformers", tmp_path, mixed, **closeness)


def test_without_the_integration(device, tmp_path):
    """Names of devices in the library: what docs/start/models.md says of it."""
    import transformers

    with pytest.raises(ValueError, match="bf16/gpu"):
        transformers.TrainingArguments(output_dir=".", report_to=[], bf16=True)
    torch.manual_seed(0)
    made("GPT-2").save_pretrained(tmp_path)
    for wanted, found in (("auto", torch.device("cpu")), ({"": device}, device)):
        model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, device_map=wanted)
        assert {p.device for p in model.parameters()} == {found}
    assert text_generation(made("GPT-2")).model.device.type == "cpu"
