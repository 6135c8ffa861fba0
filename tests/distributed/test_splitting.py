"""Groups made of a group, as meshes make them where a device is bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = pytest.mark.separate


@pytest.mark.slow
def test_split_group_and_meshes_of_two_dimensions(tmp_path: Path) -> None:
    run_ranks(
        """
        begin(backend=f"cpu:gloo,{device.type}:outboard", device_id=device)
        group = dist.split_group(split_ranks=[[0, 2], [1]])
        members = [0, 2] if rank != 1 else [1]
        for place in (device, "cpu"):
            x = torch.full((4,), 10.0 ** rank, device=place)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [sum(10.0 ** r for r in members)] * 4
        again = dist.split_group(split_ranks=[[0, 1]])
        assert (again is None) == (rank == 2)
        if again is not None:
            x = torch.full((4,), 10.0 ** rank, device=device)
            dist.all_reduce(x, group=again)
            assert x.tolist() == [11.0] * 4
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh(device.type, (3, 1), mesh_dim_names=("replicate", "shard"))
        x = torch.ones(3, device=device)
        dist.all_reduce(x, group=mesh.get_group("replicate"))
        assert x.tolist() == [3.0] * 3
        dist.all_reduce(x, group=mesh.get_group("shard"))
        assert x.tolist() == [3.0] * 3
        dist.destroy_process_group()
        """,
        tmp_path,
        ranks=3,
    )
