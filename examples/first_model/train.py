"""Trains, saves and reloads a small model on the device, and prints placements of operators."""

import sys
import tempfile

import torch

import torch_outboard
from torch_outboard import fallback

name = torch_outboard.device_name()  # "ocl", or the driver that OUTBOARD_DRIVER names
fallback.set_policy(copied="allow")


def main() -> int:
    torch.manual_seed(0)
    x = torch.randn(256, 16).to(name)
    y = x[:, :4].sum(1, keepdim=True).sin()
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    ).to(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    with fallback.report() as report:
        for step in range(101):
            with torch.autocast(name, dtype=torch.bfloat16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step % 50 == 0:
                print(f"step {step:3}  loss {losses[-1]:.4f}")
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(model.state_dict(), file.name)
        model.load_state_dict(torch.load(file.name, map_location=name, weights_only=True))
    shares = report.share_by_placement()
    print(", ".join(f"{placement}: {share:.0%}" for placement, share in shares.items()))
    peak = torch.get_device_module(name).max_memory_allocated() / 2**20
    print(f"at most {peak:.1f} MiB in use on {name}")
    return 0 if losses[-1] < losses[0] / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
