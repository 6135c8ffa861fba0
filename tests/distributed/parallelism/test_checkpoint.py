"""Distributed checkpoints: written by some ranks, read by others, on other devices or on CPU."""

import os
from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks
from tests.support import kernels_run_on

pytestmark = pytest.mark.slow

PROGRAM = """
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, get_state_dict, set_model_state_dict, set_state_dict)
from torch.distributed.fsdp import fully_shard
from tests.distributed.parallelism.networks import *
use_own_device()
begin(backend=f"cpu:gloo,{device.type}:outboard")

def sharded():
    model = network().to(device)
    for layer in model:
        if isinstance(layer, nn.Linear): fully_shard(layer)
    return fully_shard(model)

def trained(steps=3):
    # On as many ranks as there are, all of the same batches.
    model = sharded()
    optimizer = adam(model.parameters())
    train(model, device, slice(None), optimizer, steps=steps)
    return model, optimizer

def state_of(model, optimizer):
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer}

def check_loaded(path):
    reference = network()
    theirs = adam(reference.parameters())
    train(reference, "cpu", slice(None), theirs, steps=3)
    model = sharded()
    for p in model.parameters(): nn.init.zeros_(p)
    optimizer = adam(model.parameters())
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=path)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    check_parameters(model.parameters(), reference.parameters())
    # And the optimizer's state: training goes on as if nothing had been.
    check_losses(train(model, device, slice(None), optimizer, steps=2),
                 train(reference, "cpu", slice(None), theirs, steps=2))
"""
SAVE = PROGRAM + "dcp.save(state_of(*trained()), checkpoint_id={path!r})\n"
LOAD = PROGRAM + "check_loaded({path!r})\n"


def test_saved_and_loaded(tmp_path: Path) -> None:
    """By two ranks: at once, and in the background while training goes on."""
    run_ranks(
        PROGRAM
        + f"""
path = {str(tmp_path)!r}
model, optimizer = trained()
dcp.save(state_of(model, optimizer), checkpoint_id=path + "/sync")
saving = dcp.async_save(state_of(model, optimizer), checkpoint_id=path + "/async")
# The checkpoint holds the values at the time of the call.
train(model, device, slice(None), optimizer, steps=2)
saving.result()
check_loaded(path + "/sync")
check_loaded(path + "/async")

# The whole of it, on CPU.
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
whole = get_model_state_dict(model, options=options)
if rank == 0:
    assert {{t.device.type for t in whole.values()}} == {{"cpu"}}
    assert whole["2.weight"].shape == (32, 32)
""",
        tmp_path,
    )


def test_read_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one rank, by another driver, and without any group or device; what one wrote, by two."""
    path, alone = str(tmp_path / "checkpoint"), str(tmp_path / "alone")
    run_ranks(SAVE.replace("{path!r}", repr(path)), tmp_path)
    run_ranks(LOAD.replace("{path!r}", repr(path)), tmp_path, ranks=1)
    run_ranks(SAVE.replace("{path!r}", repr(alone)), tmp_path, ranks=1)
    run_ranks(LOAD.replace("{path!r}", repr(alone)), tmp_path)
    run_ranks(
        f"""
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        from tests.distributed.parallelism.networks import *
        reference, _ = alone(steps=3)
        model = network()
        state = {{"model": {{name: torch.zeros_like(t) for name, t in model.state_dict().items()}}}}
        dcp.load(state, checkpoint_id={path!r}, no_dist=True)
        check_parameters(state["model"].values(), reference.state_dict().values())
        dcp_to_torch_save({path!r}, {path!r} + ".pt")
        whole = torch.load({path!r} + ".pt", weights_only=True)
        check_parameters(whole["model"].values(), reference.state_dict().values())
        """,
        tmp_path,
        ranks=1,
    )
    here = os.environ.get("OUTBOARD_DRIVER", "ocl")
    if here != "host" or kernels_run_on("ocl"):
        monkeypatch.setenv("OUTBOARD_DRIVER", "ocl" if here == "host" else "host")
        run_ranks(LOAD.replace("{path!r}", repr(path)), tmp_path, ranks=1)
