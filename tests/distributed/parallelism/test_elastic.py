"""torchrun starts all processes again after one was killed, and training goes on."""

from pathlib import Path

import pytest

from tests.distributed.ranks import torchrun

pytestmark = pytest.mark.slow


def test_restart_from_a_checkpoint(tmp_path: Path) -> None:
    """The losses of both attempts together are those of one process that was not killed."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import os, signal, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel
from tests.distributed.parallelism.networks import *

folder, attempt = sys.argv[1], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
local = int(os.environ["LOCAL_RANK"]) % torch.accelerator.device_count()
torch.accelerator.set_device_index(local)
device = torch.device(torch.accelerator.current_accelerator().type, local)
dist.init_process_group()
rank, ranks = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(network().to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
reference = network()
wanted = train(reference, "cpu", optimizer=torch.optim.SGD(reference.parameters(), lr=0.1), steps=6)

state = {"model": model.module.state_dict(), "step": torch.zeros((), dtype=torch.int64)}
if attempt:
    dcp.load(state, checkpoint_id=folder + "/checkpoint")
    model.module.load_state_dict(state["model"])
begin = int(state["step"])
assert begin == (3 if attempt else 0), begin
losses, mine = [], part_of(rank, ranks)
for step, (x, y) in enumerate(batches(6)):
    if step < begin: continue
    if attempt == 0 and step == 4 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = squares(model(x[mine].to(device)), y[mine].to(device))
    loss.backward()
    optimizer.step()
    losses += mean_over_ranks([loss.item()], device)
    check_losses(losses, wanted[begin : step + 1])
    if attempt == 0 and step == 2:
        state["model"], state["step"] = model.module.state_dict(), torch.tensor(3)
        dcp.save(state, checkpoint_id=folder + "/checkpoint")
check_parameters(model.parameters(), reference.parameters())
dist.destroy_process_group()
print("rank", rank, "went on from step", begin, flush=True)
"""
    )
    arguments = ("--nproc-per-node", "2", "--max-restarts", "1", str(program), str(tmp_path))
    result = torchrun(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("went on from step 3") == 2, result.stdout
