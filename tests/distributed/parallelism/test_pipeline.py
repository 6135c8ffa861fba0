"""Pipelines: every schedule of PyTorch's, against one process on CPU."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.slow


def test_schedules(run_ranks: Run) -> None:
    run_ranks("""
        from torch import nn
        from torch.distributed.pipelining import (
            PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
            ScheduleInterleavedZeroBubble, ScheduleLoopedBFS, ScheduleZBVZeroBubble)
        from tests.distributed.parallelism.networks import *
        use_own_device()
        begin()

        def layers():
            torch.manual_seed(0)
            parts = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)]
            parts[3] = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
            return nn.Sequential(*parts)

        reference, losses = alone(model=layers(), steps=4)
        one = {ScheduleGPipe: 1, Schedule1F1B: 1}
        many = (ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble,
                ScheduleZBVZeroBubble)
        for kind in (*one, *many):
            model = layers().to(device)
            if kind in one:
                held = {rank: model[2 * rank : 2 * rank + 2]}
            elif kind is ScheduleZBVZeroBubble:
                held = {i: model[i] for i in ((0, 3) if rank == 0 else (1, 2))}
            else:
                held = {i: model[i] for i in (rank, rank + 2)}
            count = 2 if kind in one else 4
            stages = [PipelineStage(part, i, count, device) for i, part in held.items()]
            schedule = kind(stages[0] if kind in one else stages, n_microbatches=4, loss_fn=squares)
            parameters = [p for part in held.values() for p in part.parameters()]
            optimizer = adam(parameters)
            found = []
            for x, y in batches(4):
                optimizer.zero_grad()
                mine = []
                given = [x.to(device)] if 0 in held else []
                last = count - 1 in held
                schedule.step(*given, target=y.to(device) if last else None, losses=mine)
                optimizer.step()
                if last: found.append(torch.stack(mine).mean())
            if found: check_losses([loss.item() for loss in found], losses)
            names = {i: reference[2 * i : 2 * i + 2] if kind in one else reference[i] for i in held}
            for i, part in held.items(): check_parameters(part.parameters(), names[i].parameters())
    """)
