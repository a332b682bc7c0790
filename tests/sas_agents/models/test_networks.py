"""Networks: NumPy's matrices are torch's, and gradients are those of autograd."""

import copy

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
    linear_network,
    make_agent,
    torch_network,
)
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sas_agents.models._networks import (
    MAX_DENSE_FEATURES,
    LinearNetwork,
    apply_weight,
    squared,
    squared_norms,
    weight_gradient,
)
from sas_agents.policy_gradient._scores import score_norms

seeds = st.integers(0, 10_000)


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("num_outputs", [1, 5, 16, 40])
def test_indices_are_one_hot_features(num_outputs):
    rng = np.random.default_rng(0)
    weight, index = normal(rng, num_outputs, 7), rng.integers(7, size=30)
    one_hot = np.eye(7, dtype=np.float32)[index]
    found = apply_weight(index, weight)
    assert_close(found, one_hot @ weight.T)
    np.testing.assert_array_equal(squared(index), index)
    np.testing.assert_array_equal(squared_norms(index), squared_norms(one_hot))


def test_squares_of_features():
    features = np.array([[1.0, -2.0], [0.5, 0.0]], np.float32)
    assert squared(features).tolist() == [[1.0, 4.0], [0.25, 0.0]]
    assert squared_norms(features).tolist() == [5.0, 0.25]


def outer_products(features, rows, factors):
    """Sum the samples' outer products in double precision."""
    doubles = (values.astype(float) for values in (factors, rows, features))
    return np.einsum("b,ba,bf->af", *doubles)


def assert_gradient(found, expected):
    # Contiguous, as torch's fused optimisers read it as it lies.
    assert found.flags.c_contiguous
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@given(
    seed=seeds,
    num_features=st.sampled_from([1, 4, 5, 6, 90]),
    num_outputs=st.sampled_from([1, 5, 80]),
)
def test_weight_gradient_is_the_sum_of_outer_products(seed, num_features, num_outputs):
    """Both with fewer and with more features than outputs."""
    rng = np.random.default_rng(seed)
    arrays = (
        normal(rng, 20, num_features),
        normal(rng, 20, num_outputs),
        normal(rng, 20),
    )
    before = copy.deepcopy(arrays)
    found = weight_gradient(*arrays, num_features)
    assert_gradient(found, outer_products(*arrays))
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@given(
    seed=seeds,
    num_features=st.sampled_from([3, MAX_DENSE_FEATURES, MAX_DENSE_FEATURES + 1, 500]),
    num_outputs=st.sampled_from([1, 5, 100]),
)
def test_weight_gradient_of_indices_is_that_of_one_hot_features(
    seed, num_features, num_outputs
):
    """Multiplied out or added up by index, which repeats and leaves some out."""
    rng = np.random.default_rng(seed)
    index = rng.integers(num_features, size=30)
    index[:3] = 0, num_features - 1, num_features - 1
    rows, factors = normal(rng, 30, num_outputs), normal(rng, 30)
    one_hot = np.eye(num_features, dtype=np.float32)[index]
    found = weight_gradient(index, rows, factors, num_features)
    assert_gradient(found, outer_products(one_hot, rows, factors))
    assert_gradient(found, weight_gradient(one_hot, rows, factors, num_features))


def encodings(seed, size=12):
    """Features, and indices of one-hot ones, as a matrix takes them."""
    rng = np.random.default_rng(seed)
    return normal(rng, size, 4), rng.integers(4, size=size)


@given(seed=seeds)
def test_matrix_has_torchs_outputs_and_gradient(seed):
    network, rng = linear_network(seed), np.random.default_rng(seed)
    rows, factors = normal(rng, 12, 5), normal(rng, 12)
    loss_gradient = th.tensor(rows * factors[:, None])
    for encoded in encodings(seed):
        by_torch = network(th.tensor(encoded))
        parameters = list(network.parameters())
        expected = th.autograd.grad(by_torch, parameters, loss_gradient)
        outputs, backward = network.differentiable(encoded)
        for found in (outputs, network.outputs(encoded)):
            assert_close(found, by_torch.detach())
        for _ in range(2):  # a second one replaces the first, and does not add to it
            backward(rows, factors)
            th.testing.assert_close([p.grad for p in parameters], list(expected))


@pytest.mark.parametrize("net_arch", [[], [3]])
@pytest.mark.parametrize("bias", [False, True])
def test_network_has_torchs_outputs_and_gradients(net_arch, bias):
    network, rng = torch_network(0, net_arch, bias), np.random.default_rng(0)
    inputs, rows, factors = th.randn(12, 4), normal(rng, 12, 5), normal(rng, 12)
    (network(inputs) * th.tensor(rows * factors[:, None])).sum().backward()
    expected = [p.grad.clone() for p in network.parameters()]
    outputs, backward = network.differentiable(inputs)
    for found in (outputs, network.outputs(inputs)):
        assert_close(found, network(inputs).detach())
    backward(rows, factors)
    th.testing.assert_close([p.grad for p in network.parameters()], expected)


@pytest.mark.parametrize("fused", [False, True])
def test_optimizer_step_on_indices_equals_one_hot(fused):
    """Also for a fused optimiser, which reads the gradient's memory as it lies."""
    states, rng = np.array([0, 3, 3, 1]), np.random.default_rng(0)
    rows, factors = normal(rng, 4, 5), normal(rng, 4)
    weights = []
    for encoded in (states, np.eye(4, dtype=np.float32)[states]):
        actor = linear_network(0)
        optimizer = th.optim.Adam(actor.parameters(), lr=0.1, fused=fused)
        actor.differentiable(encoded)[1](rows, factors)
        optimizer.step()
        weights.append(actor.weight)
    assert_close(*weights)


def test_every_way_to_the_matrix_is_the_same():
    """Torch's parameter, NumPy's array and the state, also when it is replaced."""
    network, states = linear_network(0), np.arange(4)
    (parameter,) = network.parameters()
    assert network.parameter is parameter
    network.weight[0, 0] = 7.0
    assert parameter[0, 0] == 7.0
    network.set_weight(2 * network.weight)
    assert next(network.parameters()) is network.parameter is parameter
    np.testing.assert_array_equal(network.outputs(states), network.weight.T)
    np.testing.assert_array_equal(network(th.tensor(states)).detach(), network.weight.T)
    assert network.weight[0, 0] == network.state_dict()["layers.0.weight"][0, 0] == 14.0
    assert parameter.requires_grad


def test_copied_matrix_is_its_own():
    network = linear_network(0)
    other = copy.deepcopy(network)
    before = network.weight.copy()
    other.load_state_dict(linear_network(1).state_dict())
    np.testing.assert_array_equal(network.weight, before)
    expected = linear_network(1).outputs(np.arange(4))
    np.testing.assert_array_equal(other.outputs(np.arange(4)), expected)
    assert other.parameter is other.output_layer.weight


def test_torch_differentiates_the_matrix_at_indices():
    """With other parameters in its place, as the gradients of samples need it."""
    network, states = linear_network(0), np.array([0, 3, 3, 1])
    masks, actions = np.ones((4, 5), np.int8), np.array([0, 1, 2, 4])
    one_hot = th.eye(4)[states]
    expected = score_norms(network, one_hot, masks, actions)
    found = score_norms(network, th.tensor(states), masks, actions)
    assert_close(found, expected)


@episodic_agents
@pytest.mark.parametrize("net_arch", [{"pi": [], "vf": [8]}, {"pi": [8], "vf": []}])
def test_matrix_beside_networks_is_left_to_torch(agent, net_arch):
    """All three networks take the same inputs, so that one alone is no matrix."""
    env = VecMonitor(DummyVecEnv([lambda: Masked(spaces.Discrete(4))] * 2))
    model = make_agent(agent, env, policy_kwargs={"net_arch": net_arch})
    policy = model.policy
    assert not policy.is_matrix
    networks = [policy.actor, policy.value_net, policy.q_net]
    assert not any(isinstance(network, LinearNetwork) for network in networks)
    sizes = [[layer.out_features for layer in n.layers[::2]] for n in networks]
    hidden = net_arch["vf"]
    assert sizes == [[*net_arch["pi"], 3], [*hidden, 1], [*hidden, 3]]
    before = everything_learned(model)
    model.learn(60)
    after = everything_learned(model)
    for name in ("actor", "value_net", "q_net"):
        parts = [
            {key: value for key, value in learned.items() if f"policy.{name}" in key}
            for learned in (before, after)
        ]
        assert_differ(*parts)
