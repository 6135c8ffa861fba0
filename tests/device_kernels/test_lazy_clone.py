"""Copy-on-write storages under device kernels, which are given plain addresses."""

import torch

from tests.tensors.test_lazy_clone import READS, WRITES, shared


def test_reading_keeps_memory_shared(device):
    for name, read in READS.items():
        original = torch.arange(6.0, device=device)
        clone = torch._lazy_clone(original)
        read(clone)
        assert shared(original, clone) == [True, True], name


def test_writing_leaves_the_other_alone(device):
    for name, write in WRITES.items():
        for which in (0, 1):
            pair = [torch.arange(6.0, device=device)]
            pair.append(torch._lazy_clone(pair[0]))
            write(pair[which])
            assert pair[1 - which].tolist() == list(range(6)), name
            assert shared(pair[which]) == [False], name
