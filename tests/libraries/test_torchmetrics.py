"""torchmetrics: state on the device, update, compute, reset."""

from __future__ import annotations

import pytest

torchmetrics = pytest.importorskip("torchmetrics")

METRICS = {
    "accuracy": lambda: torchmetrics.Accuracy(task="multiclass", num_classes=5),
    "F1": lambda: torchmetrics.F1Score(task="multiclass", num_classes=5, average="macro"),
    "AUROC": lambda: torchmetrics.AUROC(task="multiclass", num_classes=5),
    "confusion": lambda: torchmetrics.ConfusionMatrix(task="multiclass", num_classes=5),
    "average precision": lambda: torchmetrics.AveragePrecision(
        task="multiclass", num_classes=5, thresholds=20
    ),
}
REGRESSIONS = {
    "mean squared error": lambda: torchmetrics.MeanSquaredError(),
    "Pearson": lambda: torchmetrics.PearsonCorrCoef(),
    "R2": lambda: torchmetrics.R2Score(),
}


@pytest.mark.parametrize("name", [*METRICS, *REGRESSIONS])
def test_metrics(same_as_on_cpu, name):
    def program(run):
        metric = run.on_device((METRICS | REGRESSIONS)[name]())
        for _ in range(2):
            for _ in range(3):
                if name in METRICS:
                    metric.update(run.draw(32, 5).softmax(1), run.integers(0, 5, (32,)))
                else:
                    x = run.draw(32)
                    metric.update(x, x + 0.1 * run.draw(32))
            yield {"value": metric.compute().to(run.dtype)}
            metric.reset()

    same_as_on_cpu(program, bitwise=False)
