"""Training by functions: `torch.func`, derivatives of derivatives, forward mode, ensembles."""

from __future__ import annotations

import pytest
import torch
from torch import func, nn
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, descend, perceptron

pytestmark = pytest.mark.separate


@as_on_cpu(bitwise=False)  # products of batches that vmap makes have other strides
def test_gradients_per_sample(run):
    """Each sample's gradient, bounded and averaged, as private training does it."""
    model = run.on_device(perceptron(8))
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss_of(parameters, sample, target):
        scores = func.functional_call(model, parameters, (sample.unsqueeze(0),))
        return functional.cross_entropy(scores, target.unsqueeze(0))

    each = func.vmap(func.grad(loss_of), in_dims=(None, 0, 0))
    for _ in range(20):
        gradients = each(parameters, *batch(run))
        norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0)
        factor = (1.0 / norms.sqrt()).clamp(max=1.0)
        parameters = {
            name: p - 0.1 * torch.einsum("n,n...->...", factor, gradients[name]) / len(factor)
            for name, p in parameters.items()
        }
        yield {"norms": norms, "parameters": parameters}


@as_on_cpu
def test_ensemble(run):
    """Several models trained at once by vmap over their stacked parameters."""
    models = [run.on_device(perceptron(8)) for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    optimizer = torch.optim.Adam(parameters.values(), lr=0.01)

    def call(parameters, buffers, inputs):
        return func.functional_call(models[0], (parameters, buffers), (inputs,))

    for _ in range(20):
        inputs, classes = batch(run)
        scores = func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, inputs)
        losses = func.vmap(functional.cross_entropy, in_dims=(0, None))(scores, classes)
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
        yield {"losses": losses, "parameters": parameters}


@as_on_cpu
def test_gradient_penalty(run):
    """Two networks against each other, with a penalty on the gradient of one in its inputs."""
    maker = run.on_device(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)))
    critic = run.on_device(nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1)))
    makers = torch.optim.Adam(maker.parameters(), lr=0.01, betas=(0.0, 0.9))
    critics = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.0, 0.9))
    for number in range(24):
        real, made = run.draw(8, 2) * 0.5 + 1, maker(run.draw(8, 3))
        part = run.on_device(torch.rand(8, 1))
        between = (part * real + (1 - part) * made.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        loss = critic(made.detach()).mean() - critic(real).mean() + 10 * penalty
        critics.zero_grad()
        loss.backward()
        critics.step()
        shown = {"loss": loss, "penalty": penalty, "critic": critic}
        if number % 3 == 2:
            makers.zero_grad()
            (-critic(maker(run.draw(8, 3))).mean()).backward()
            makers.step()
        yield {**shown, "maker": maker}


@as_on_cpu(bitwise=False)  # products of batches that vmap makes have other strides
def test_newton_by_hessians(run):
    inputs, targets = run.draw(16, 3), run.draw(16)
    weights = run.on_device(torch.randn(3))

    def loss_of(weights):
        residuals = (inputs @ weights).tanh() - targets
        return functional.softplus(residuals.square()).mean()

    for _ in range(20):
        gradient, curvature = func.grad(loss_of)(weights), func.hessian(loss_of)(weights)
        damped = curvature + 0.5 * torch.eye(3, device=run.device, dtype=run.dtype)
        weights = weights - torch.linalg.solve(damped, gradient)
        yield {"weights": weights, "curvature": curvature, "loss": loss_of(weights)}


@as_on_cpu(bitwise=False)  # products of batches that vmap makes have other strides
def test_forward_mode(run):
    """Descent along a direction whose slope comes from forward mode; and a whole Jacobian."""
    model = run.on_device(perceptron(8))
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    for number in range(20):
        inputs, classes = batch(run)
        direction = {name: run.draw(*p.shape) for name, p in parameters.items()}

        def loss_of(parameters, inputs=inputs, classes=classes):
            scores = func.functional_call(model, parameters, (inputs,))
            return functional.cross_entropy(scores, classes)

        loss, slope = func.jvp(loss_of, (parameters,), (direction,))
        parameters = {n: p - 0.02 * slope * direction[n] for n, p in parameters.items()}
        shown = {"loss": loss, "slope": slope, "parameters": parameters}
        if number % 5 == 0:
            call = func.functional_call
            shown["jacobian"] = func.jacfwd(lambda x: call(model, parameters, (x,)))(inputs[:2])  # noqa: B023
        yield shown


@as_on_cpu
def test_implicit_layer(run):
    """A fixed point found without gradients, differentiated by a hook that solves for it."""
    layer = run.on_device(nn.Linear(4, 4))
    layer.weight.data.mul_(0.3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(20):
        x = run.draw(5, 4)
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(10):
                z = (layer(z) + x).tanh()
        z = (layer(z) + x).tanh()
        start = z.clone().detach().requires_grad_()
        again = (layer(start) + x).tanh()

        def solve(gradient, start=start, again=again):
            result = gradient
            for _ in range(10):
                (step,) = torch.autograd.grad(again, start, result, retain_graph=True)
                result = step + gradient
            return result

        z.register_hook(solve)
        loss = (z - 0.5).square().mean()
        descend(optimizer, loss)
        yield {"loss": loss, "z": z, "layer": layer}
