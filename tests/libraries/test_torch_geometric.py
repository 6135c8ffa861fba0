"""torch_geometric: message passing over graphs, batched, with its sparse and dense forms."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.libraries.enabled import same_losses
from tests.libraries.models import STEPS

geometric = pytest.importorskip("torch_geometric")

LAYERS = {
    "GCN": lambda nn: nn.GCNConv(8, 16),
    "GAT": lambda nn: nn.GATConv(8, 8, heads=2),
    "GraphSAGE": lambda nn: nn.SAGEConv(8, 16, aggr="max"),
    "GIN": lambda nn: nn.GINConv(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU())),
    "transformer": lambda nn: nn.TransformerConv(8, 8, heads=2),
}


def graphs(run):
    """Three graphs in one batch, with a class each."""
    made = []
    for label, nodes in enumerate((5, 7, 4)):
        edges = torch.randint(0, nodes, (2, 3 * nodes))
        x = run.precise(torch.randn(nodes, 8))
        made.append(geometric.data.Data(x=x, edge_index=edges, y=torch.tensor([label])))
    return geometric.data.Batch.from_data_list(made).to(run.device)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(same_as_on_cpu, name):
    nn = pytest.importorskip("torch_geometric.nn")

    def program(run):
        layer = run.on_device(LAYERS[name](nn))
        head = run.on_device(torch.nn.Linear(16, 3))
        learned = [*layer.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(learned, lr=1e-2, foreach=False)
        for _ in range(STEPS):
            batch = graphs(run)
            hidden = functional.silu(layer(batch.x, batch.edge_index))
            loss = functional.cross_entropy(head(nn.global_mean_pool(hidden, batch.batch)), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "layer": layer}

    # What is scattered is added in the order of threads.
    same_as_on_cpu(program, bitwise=False)


LOADERS = """
import torch_geometric
from torch_geometric.loader import DataLoader, PrefetchLoader
place = torch_geometric.device("auto" if where != "cpu" else "cpu")
graphs = [
    torch_geometric.data.Data(x=torch.randn(n, 8), edge_index=torch.randint(0, n, (2, 3 * n)))
    for n in (5, 7, 4, 6)
]
layer = torch_geometric.nn.GCNConv(8, 3).to(place)
losses = []
loader = DataLoader(graphs, batch_size=2, pin_memory=where != "cpu")
for batch in PrefetchLoader(loader, None if where != "cpu" else "cpu"):
    assert batch.x.device.type == where, batch.x.device
    loss = layer(batch.x, batch.edge_index).square().mean()
    loss.backward()
    losses += [loss.item(), layer.lin.weight.grad.abs().sum().item()]
for batch in loader:
    losses.append(batch.to(place, non_blocking=True).x.sum().item())
shown = place.type, losses
"""


def test_loaders(device, tmp_path):
    pytest.importorskip("torch_geometric.loader")
    same_losses(LOADERS, device, "torch_geometric", tmp_path)
