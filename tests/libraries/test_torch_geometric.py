"""torch_geometric: message passing over graphs, batched, with its sparse and dense forms."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

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
