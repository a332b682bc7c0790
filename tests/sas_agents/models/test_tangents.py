"""Every tangent equals autograd, sample by sample."""

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import (
    Masked,
    assert_close,
    assert_differ,
    episodic_agents,
    everything_learned,
    make_agent,
    random_mlp,
)
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor
from torch import nn
from torch.nn.utils import parameters_to_vector

from sas_agents.models._mlp import ACTIVATIONS, Dense, Indices, Mlp
from sas_agents.models._model import Model, Network, Tensors, TorchTangent

B, F, A = 12, 4, 5
close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)


class Pair(Model):
    """A user's model of two observations, with layers that are not an `Mlp`'s."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.place, self.size = nn.Linear(3, 6), nn.Linear(1, 6, bias=False)
        self.last = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, num_outputs))

    def forward(self, observations: Any) -> th.Tensor:
        hidden = self.place(observations["place"]) * self.size(observations["size"])
        result: th.Tensor = self.last(hidden)
        return result


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def inputs_of(kind, seed):
    if kind == "dense":
        return Dense(normal(seed, B, F))
    if kind == "indices":
        return Indices(np.random.default_rng(seed).integers(F, size=B), F)
    features = th.tensor(normal(seed, B, F))
    if kind == "tensor":
        return Tensors(features)
    return Tensors({"place": features[:, :3], "size": features[:, 3:]})


def torch_model(kind, seed, net_arch):
    th.manual_seed(seed)
    if kind == "dict":
        return Pair(A)
    space = spaces.Box(-np.inf, np.inf, (F,), np.float32)
    model = Network(FlattenExtractor(space), net_arch, nn.ELU, A, bias=True)
    model.set_theta(0.5 * normal(seed, model.theta.size))
    return model


@st.composite
def cases(draw):
    """A model, inputs of a kind that it takes, and a seed."""
    seed = draw(st.integers(0, 10_000))
    kind = draw(st.sampled_from(["dense", "indices", "tensor", "dict"]))
    net_arch = draw(st.sampled_from([[], [6], [6, 3]]))
    if kind in ("tensor", "dict"):
        return torch_model(kind, seed, net_arch), inputs_of(kind, seed), seed
    activation = draw(st.sampled_from(list(ACTIVATIONS)))
    bias = draw(st.booleans())
    model = random_mlp(seed, net_arch, bias, activation=activation)
    return model, inputs_of(kind, seed), seed


def jacobian(model, inputs):
    """Differentiate each output of each sample: [B, A, P]."""
    outputs = model(inputs.tensors(th.device("cpu")))
    rows = []
    for output in outputs.reshape(-1):
        gradients = th.autograd.grad(output, model.parameters(), retain_graph=True)
        rows.append(parameters_to_vector(gradients))
    return outputs.detach().numpy(), th.stack(rows).reshape(*outputs.shape, -1).numpy()


def some_rows(seed):
    """Rows to multiply outputs with: of all actions, or of available ones only."""
    mask = np.random.default_rng(seed).random((B, A)) < 0.5
    return normal(seed + 1, B, A) * (mask if seed % 2 else 1)


@given(case=cases())
def test_tangent_equals_autograd(case):
    model, inputs, seed = case
    outputs, slopes = jacobian(model, inputs)
    rows, direction = some_rows(seed), normal(seed + 2, slopes.shape[2])
    gradients = np.einsum("ba,bap->bp", rows, slopes)
    for tangent in (model.tangent(inputs), TorchTangent(model, inputs)):
        close(tangent.outputs, outputs)
        close(tangent.jvp(direction), slopes @ direction)
        close(tangent.vjp(rows), gradients.sum(axis=0))
        norms, measured = tangent.norms(rows)
        close(norms, np.linalg.norm(gradients, axis=1)[measured])
        close(tangent.squares(rows), np.square(gradients).sum(axis=0))
    for found in (model.outputs(inputs), model.function()(inputs)):
        close(found, outputs)


@given(case=cases())
def test_gradient_reaches_the_optimiser(case):
    """A step of SGD moves all parameters along the vector that was set."""
    model, inputs, seed = case
    before, gradient = model.theta.copy(), normal(seed, model.theta.size)
    for _ in range(2):  # the second one replaces the first
        model.set_gradient(gradient)
    th.optim.SGD(model.parameters(), lr=0.5).step()
    close(model.theta, before - 0.5 * gradient)
    model.set_theta(before)
    close(model.outputs(inputs), jacobian(model, inputs)[0])
    np.testing.assert_array_equal(model.theta, before)


@given(case=cases(), factor=st.sampled_from([0.0, 0.25, 3.0]))
def test_scaled_outputs(case, factor):
    model, inputs, _ = case
    if isinstance(model, Pair):
        with pytest.raises(NotImplementedError):
            model.scale_outputs(factor)
        return
    before = model.outputs(inputs)
    model.scale_outputs(factor)
    close(model.outputs(inputs), factor * before)


@given(case=cases())
def test_part_of_the_inputs(case):
    model, inputs, _ = case
    assert len(inputs) == B
    assert len(inputs[2::3]) == len(range(2, B, 3))
    close(model.outputs(inputs[2::3]), model.outputs(inputs)[2::3])
    order = np.random.default_rng(0).permutation(B)
    close(model.outputs(inputs[order]), model.outputs(inputs)[order])


def test_norms_where_each_takes_a_gradient_are_of_some_samples():
    inputs, rows = Dense(normal(0, 1030, F)), normal(1, 1030, A)
    model = random_mlp(0, [3])
    every, all_samples = model.tangent(inputs).norms(rows)
    norms, measured = TorchTangent(model, inputs).norms(rows)
    assert all_samples == slice(None)
    assert len(norms) == 258
    close(norms, every[measured])


@pytest.mark.parametrize("num_states", [3, 5000])
def test_indices_repeat_and_leave_states_out(num_states):
    index = np.array([0, num_states - 1, num_states - 1, 1])
    model = Mlp(num_states, [], nn.Tanh, A, bias=False)
    gradient = model.tangent(Indices(index, num_states)).vjp(
        np.ones((4, A), np.float32)
    )
    expected = np.bincount(index, minlength=num_states)
    np.testing.assert_array_equal(gradient.reshape(num_states, A)[:, 2], expected)


def test_hidden_layers_start_as_torchs_and_outputs_at_0():
    th.manual_seed(0)
    model = Mlp(F, [64], nn.Tanh, A, bias=True)
    first, last = model.layers()
    th.manual_seed(0)
    linear = nn.Linear(F, 64)
    assert_close(first.weight, linear.weight.detach().T)
    assert_close(first.bias, linear.bias.detach())
    assert not last.weight.any()
    assert not last.bias.any()


def test_parameters_survive_copies_loading_and_moves():
    """Views of the parameters are made at each use."""
    model, inputs = random_mlp(0, [3], bias=True), inputs_of("dense", 0)
    other = copy.deepcopy(model)
    before = model.outputs(inputs)
    other.load_state_dict(random_mlp(1, [3], bias=True).state_dict())
    np.testing.assert_array_equal(model.outputs(inputs), before)
    expected = random_mlp(1, [3], bias=True).outputs(inputs)
    np.testing.assert_array_equal(other.outputs(inputs), expected)
    moved = other.to("cpu")
    with th.no_grad():
        next(iter(moved.parameters())).mul_(0.0)
    assert not moved.outputs(inputs).any()
    assert not moved.theta.any()


@episodic_agents
@pytest.mark.parametrize("net_arch", [{"pi": [], "vf": [8]}, {"pi": [8], "vf": []}])
def test_linear_models_beside_networks(agent, net_arch):
    env = VecMonitor(DummyVecEnv([lambda: Masked(spaces.Discrete(4))] * 2))
    model = make_agent(agent, env, policy_kwargs={"net_arch": net_arch})
    policy = model.policy
    hidden = net_arch["vf"]
    for network, sizes in (
        (policy.actor, [*net_arch["pi"], 3]),
        (policy.value_net, [*hidden, 1]),
        (policy.q_net, [*hidden, 3]),
    ):
        assert [layer.weight.shape[1] for layer in network.layers()] == sizes
    # Least squares fit critics that are linear; others have a rate.
    assert (model.critic_learning_rate is None) == (not hidden)
    before = everything_learned(model)
    model.learn(60)
    after = everything_learned(model)
    for name in ("actor", "value_net", "q_net"):
        parts = [
            {key: value for key, value in learned.items() if f"policy.{name}" in key}
            for learned in (before, after)
        ]
        assert_differ(*parts)
