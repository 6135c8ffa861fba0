"""Random histories of the caching allocator against a model, and many threads at once."""

from __future__ import annotations

import gc
import random

import pytest
import torch

from tests.runtime.memory_checks import (
    AllocatorModel,
    blocks_in_use,
    check_segments,
    check_statistics,
    check_tensors,
    empty,
    forget_everything,
)
from tests.support import in_threads

pytestmark = [
    pytest.mark.by_turns(2),
    pytest.mark.separate,
    pytest.mark.torture,
    pytest.mark.usefixtures("memory_given_back"),
]


def test_freeing_in_another_thread(device: torch.device) -> None:
    tensors = [empty(size, device) for size in (100, 3 << 20)]
    addresses = {t.data_ptr() for t in tensors}
    in_threads(lambda _: tensors.clear(), 1)
    assert not addresses & set(blocks_in_use(device))


def random_size(rng: random.Random) -> int:
    return int(2 ** rng.uniform(0, 24))


@pytest.mark.parametrize("seed", range(6))
def test_random_history_against_a_model(device: torch.device, seed: int) -> None:
    rng = random.Random(seed)
    model = AllocatorModel(device)
    streams = [torch.accelerator.current_stream(), torch.Stream(device), torch.Stream(device)]
    live: list[torch.Tensor] = []
    for step in range(600):
        action = rng.random()
        if action < 0.52:
            size = random_size(rng)
            with rng.choice(streams):
                live.append(empty(size, device))
            model.make(size)
        elif action < 0.97 and live:
            tensor = live.pop(rng.randrange(len(live)))
            if rng.random() < 0.3:
                tensor.record_stream(rng.choice(streams))
            model.let_go(tensor.numel())
            del tensor
        elif action < 0.985:
            torch.accelerator.empty_cache()
        else:
            torch.accelerator.reset_peak_memory_stats(device.index)
        if step % 20 == 0:
            model.check()
            check_segments(device)
            check_statistics(device)
            check_tensors(live, device)
    for tensor in live:
        model.let_go(tensor.numel())
    live.clear()
    del tensor
    model.check()
    forget_everything()
    check_statistics(device)


def test_many_threads(device: torch.device) -> None:
    def work(seed: int) -> None:
        rng = random.Random(seed)
        live: list[tuple[torch.Tensor, int]] = []
        with torch.Stream(device) if seed % 2 else torch.accelerator.current_stream():
            for step in range(150):
                if len(live) < 8 and rng.random() < 0.6:
                    value = seed * 1000 + step
                    size = rng.choice([10, 1000, 100_000, 400_000])
                    live.append((torch.full((size,), value, device=device), value))
                elif live:
                    tensor, value = live.pop(rng.randrange(len(live)))
                    assert bool((tensor == value).all()), "another thread wrote to this memory"
                if step % 50 == 49:
                    torch.accelerator.empty_cache()

    in_threads(work, 6)
    gc.collect()
    check_segments(device)
    check_statistics(device)
