"""Point-to-point communication of Gloo, which knows no memory of devices."""

import pytest

from tests.support import run_python

pytestmark = pytest.mark.skipif(
    "not __import__('torch').distributed.is_available()", reason="no c10d"
)


def test_gloo_refuses_device_tensors(device):
    out = run_python(
        """
        import sys, torch
        import torch.distributed as dist
        name = sys.argv[1]
        # Alone: what is refused is refused before anybody else is asked.
        dist.init_process_group(f"cpu:gloo,{name}:gloo", store=dist.HashStore(), rank=0,
                                world_size=1)
        group = dist.group.WORLD
        x = torch.ones(4, device=name)
        for call in (lambda: group.send([x], 0, 0), lambda: group.recv([x], 0, 0),
                     lambda: group.recv_anysource([x], 0)):
            for inference in (False, True):
                with torch.inference_mode(inference):
                    try:
                        call()
                        print("sent")
                    except RuntimeError as error:
                        print("Gloo sends and receives host memory only" in str(error))
        try:
            group.send([torch.ones(4)], 0, 0)  # rank 0 to itself: Gloo's own error
        except RuntimeError as error:
            print("host memory only" in str(error))
        dist.destroy_process_group()
        """,
        device.type,
    )
    assert out.split() == ["True"] * 6 + ["False"]
