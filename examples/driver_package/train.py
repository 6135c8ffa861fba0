"""Trains a small network on mychip, and prints what ran where.

OUTBOARD_DRIVER=mychip python train.py
"""

import sys

import torch

from torch_outboard import fallback


def points(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of the plane, and whether each lies in the ring between two circles."""
    place = torch.rand(count, 2) * 2 - 1
    radius = place.norm(dim=1)
    return place, ((radius > 0.4) & (radius < 0.8)).long()


def main() -> int:
    torch.manual_seed(0)
    device = torch.device("mychip")
    fallback.set_policy(copied="allow")  # the report counts what runs on the host
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(),
        torch.nn.Linear(32, 2),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    place, label = (tensor.to(device) for tensor in points(512))
    with fallback.report() as report:
        for step in range(401):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(place), label)
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step:3}  loss {loss.item():.4f}")
    place, label = points(2000)
    found = model(place.to(device)).argmax(1).cpu()
    right = (found == label).float().mean().item()
    print(f"{right:.1%} of new points are told right by {device}")
    print(*sorted(line for line in str(report).splitlines() if "mm " in line), sep="\n")
    shares = report.share_by_placement()
    print(", ".join(f"{placement}: {share:.0%}" for placement, share in shares.items()))
    return 0 if right > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
