"""peft: adapters on models of transformers."""

from __future__ import annotations

import pytest
import torch

from tests.libraries.models import made, masked, trained, words

peft = pytest.importorskip("peft")


@pytest.mark.parametrize("where", ["before moving", "after moving"])
@pytest.mark.parametrize("kind", ["LoRA", "DoRA", "merged LoRA"])
def test_peft(same_as_on_cpu, kind, where):
    """Adapters on a model that moves to the device with them, or is there already."""

    def program(run):
        base = run.precise(made("LLaMA"))
        if where == "after moving":
            base = base.to(run.device)
        settings = peft.LoraConfig(
            r=4, target_modules=["q_proj", "v_proj", "down_proj"], use_dora=kind == "DoRA"
        )
        model = run.on_device(peft.get_peft_model(base, settings))
        # The adapters' start is drawn where the model was.
        torch.manual_seed(1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_A" in name:
                    parameter.copy_(torch.randn(parameter.shape) * 0.1)
        yield from trained(run, model, masked)
        if kind == "merged LoRA":
            merged = model.merge_and_unload().eval()
            yield {"scores": merged(words(run, 2, 6)).logits}

    same_as_on_cpu(program)
