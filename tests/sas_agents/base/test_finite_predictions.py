"""NaN, infinity and huge values are errors: no unavailable action is ever returned."""

import re
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import (
    MASKED_AGENTS,
    PAPER_AGENTS,
    SHORT,
    Masked,
    all_agents,
    every_agent,
    make_agent,
    maze_observations,
)

from sas_agents import MaskedA2C, MaskedPPO, MaskedQRDQN, MaskedRecurrentPPO, MaskedTRPO
from sas_agents.base._predictions import check_available, check_inputs
from sas_agents.maths._masked_ops import available_values
from sas_gym.masks import MASK_KEY

NUM_ROWS = 3
STOCKS = spaces.Dict(
    cash=spaces.Box(-np.inf, np.inf, (2,), np.float64),
    picture=spaces.Box(0, 255, (3, 36, 36), np.uint8),
    stock=spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
    day=spaces.Discrete(7),
    shelves=spaces.MultiDiscrete([2, 3]),
)
CRITICS_OF_DIMENSIONS = [MaskedPPO, MaskedA2C, MaskedTRPO]

greedy_and_sampled = pytest.mark.parametrize("deterministic", [True, False])
not_finite = pytest.mark.parametrize("fault", [np.nan, np.inf, -np.inf])


class Stocks(Masked):
    """Three actions, and an observation with every kind of entry."""

    def __init__(self) -> None:
        super().__init__(STOCKS)


def make_stocks_agent(agent: Any) -> Any:
    is_recurrent = agent is MaskedRecurrentPPO
    policy = "MlpLstmPolicy" if is_recurrent else "MlpPolicy"
    return agent(policy, Stocks(), **(SHORT[agent] | {"seed": 0}))


def stocks_observations() -> dict[str, Any]:
    STOCKS.seed(0)
    rows = [STOCKS.sample() for _ in range(NUM_ROWS)]
    batch = {key: np.stack([row[key] for row in rows]) for key in STOCKS}
    return batch | {MASK_KEY: np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])}


def row_of(batch: dict[str, Any], index: int) -> dict[str, Any]:
    return {key: values[index] for key, values in batch.items()}


def with_fault(batch: dict[str, Any], key: str, fault: float) -> dict[str, Any]:
    """Return a batch whose last entry of a key, in row 1, is not finite."""
    values = batch[key].astype(np.float64)
    values[1].reshape(-1)[-1:] = fault
    if values.ndim == 1:
        values[1] = fault
    return batch | {key: values}


def poison(model: Any, value: float) -> None:
    """Set all weights of a policy."""
    for parameter in model.policy.parameters():
        parameter.data.fill_(value)


@pytest.fixture(scope="module", params=[*PAPER_AGENTS, *MASKED_AGENTS])
def stocks_agent(request: pytest.FixtureRequest) -> Any:
    return make_stocks_agent(request.param)


@greedy_and_sampled
@not_finite
@pytest.mark.parametrize("key", list(STOCKS))
def test_entry_that_is_not_finite_is_named(stocks_agent, key, fault, deterministic):
    """Also in keys of integers and images, whose batch may be of another type."""
    batch = with_fault(stocks_observations(), key, fault)
    last = [size - 1 for size in STOCKS[key].shape or ()]
    for obs, entry in ((batch, [1, *last]), (row_of(batch, 1), last)):
        where = f"[{', '.join(map(str, entry))}]" if entry else ""
        message = re.escape(f"observation['{key}']{where} is {fault}")
        with pytest.raises(ValueError, match=message):
            stocks_agent.predict(obs, deterministic=deterministic)
    actions, _ = stocks_agent.predict(row_of(batch, 0), deterministic=deterministic)
    assert batch[MASK_KEY][0][actions] == 1


@all_agents
@greedy_and_sampled
@not_finite
def test_bare_observation_beside_masks_is_checked(agent, fault, deterministic):
    model, obs = make_agent(agent), maze_observations(NUM_ROWS)
    bare, masks = obs["observation"], obs[MASK_KEY]
    bare[1, 0] = fault
    for seen, mask in ((bare, masks), (bare[1], masks[1]), (bare.tolist(), masks)):
        with pytest.raises(ValueError, match=r"observation\['observation'\]\[.*0\] is"):
            model.predict(seen, deterministic=deterministic, action_masks=mask)


@all_agents
@not_finite
def test_action_masks_that_are_not_finite_are_errors(agent, fault):
    model, obs = make_agent(agent), maze_observations(NUM_ROWS)
    masks = obs[MASK_KEY].astype(float)
    masks[1, 4] = fault
    with pytest.raises(ValueError, match="action_masks must be 1 where"):
        model.predict(obs, action_masks=masks)
    with pytest.raises(ValueError, match=r"observation\['action_mask'\] must be 1"):
        model.predict(obs | {MASK_KEY: masks})


@greedy_and_sampled
@not_finite
def test_state_of_a_memory_must_be_finite(fault, deterministic):
    model, obs = make_agent(MaskedRecurrentPPO), maze_observations(NUM_ROWS)
    for index in (0, 1):
        _, state = model.predict(obs)
        state[index][0, 1, 5] = fault
        with pytest.raises(ValueError, match=rf"state\[{index}\]\[0, 1, 5\] is"):
            model.predict(obs, state, deterministic=deterministic)
    starts = np.array([0.0, fault, 1.0])
    with pytest.raises(ValueError, match=r"episode_start\[1\] is"):
        model.predict(obs, episode_start=starts, deterministic=deterministic)


@pytest.mark.parametrize("number", [1e39, -1e300])
def test_numbers_beyond_single_precision_are_errors(stocks_agent, number):
    """Networks would see infinity."""
    batch = stocks_observations()
    batch["cash"][2, 1] = number
    with pytest.raises(ValueError, match=r"observation\['cash'\]\[2, 1\] is"):
        stocks_agent.predict(batch)


def test_number_of_wrong_entries_is_named():
    with pytest.raises(ValueError, match=r"\['x'\]\[0, 1\] is nan, and so are 2 more"):
        check_inputs({"x": np.array([[0, np.nan], [np.inf, np.nan]])})


@pytest.mark.parametrize("agent", CRITICS_OF_DIMENSIONS)
@pytest.mark.parametrize(
    "action_space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)]
)
@greedy_and_sampled
def test_actions_of_several_dimensions(agent, action_space, deterministic):
    class Dimensions(Masked):
        def __init__(self) -> None:
            super().__init__(spaces.Box(-1, 1, (2,)), action_space)

        def action_masks(self) -> Any:
            mask = np.ones(5 if isinstance(action_space, spaces.MultiDiscrete) else 4)
            mask[1] = 0
            return mask

    env = Dimensions()
    model = agent("MlpPolicy", env, **SHORT[agent])
    masks = np.tile(env.action_masks(), (20, 1))
    obs = np.zeros((20, 2), np.float32)
    actions, _ = model.predict(obs, deterministic=deterministic, action_masks=masks)
    assert (actions[:, 0] == 0).all()
    obs[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"\['observation'\]\[3, 1\] is nan"):
        model.predict(obs, deterministic=deterministic, action_masks=masks)
    poison(model, np.nan)
    with pytest.raises(ValueError, match="not finite"):
        model.predict(obs[:3], deterministic=deterministic, action_masks=masks[:3])


@all_agents
@greedy_and_sampled
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_file_with_broken_weights(agent, policy, value, deterministic, tmp_path):
    model = make_agent(agent, policy=policy)
    poison(model, value)
    model.save(tmp_path / "broken")
    loaded = agent.load(tmp_path / "broken")
    batch = maze_observations(NUM_ROWS)
    for obs in (batch, batch, row_of(batch, 1)):
        with pytest.raises(ValueError, match=r"loaded weights \S+ are not finite"):
            loaded.predict(obs, deterministic=deterministic)


@all_agents
def test_one_broken_weight_of_a_file_is_named(agent, tmp_path):
    """Whether or not the outputs for these observations depend on it."""
    model = make_agent(agent, policy="MlpPolicy")
    name, last = list(model.policy.named_parameters())[-1]
    last.data.view(-1)[-1] = np.nan
    model.save(tmp_path / "broken")
    obs, intact = maze_observations(NUM_ROWS), make_agent(agent, policy="MlpPolicy")
    loaded = agent.load(tmp_path / "broken")
    with pytest.raises(ValueError, match=f"the loaded weights {name} are not finite"):
        loaded.predict(obs)
    loaded.set_parameters(intact.get_parameters())
    loaded.predict(obs)


@pytest.mark.parametrize(
    ("agent", "value"),
    [
        (agent, value)
        for agent in SHORT
        for value in (np.nan, 3e38, -3e38)
        # The gates of a memory are bounded, whatever its weights are.
        if agent is not MaskedRecurrentPPO or np.isnan(value)
    ],
)
@greedy_and_sampled
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_weights_that_break_in_memory(agent, policy, value, deterministic):
    """The policy refuses, too, where it is used by itself."""
    model = make_agent(agent, policy=policy)
    batch = maze_observations(NUM_ROWS)
    batch["observation"] = abs(batch["observation"]) + 1
    poison(model, value)
    for obs in (batch, row_of(batch, 1)):
        for predict in (model.predict, model.policy.predict):
            with pytest.raises(ValueError, match="not finite"):
                predict(obs, deterministic=deterministic)


@every_agent
@pytest.mark.parametrize("value", [np.nan, np.inf, 2e38, -2e38])
def test_forward_refuses_values_that_are_not_finite(agent, value):
    model = make_agent(agent)
    poison(model, value)
    tensors, _ = model.policy.obs_to_tensor(maze_observations(NUM_ROWS))
    for deterministic in (True, False):
        with pytest.raises(ValueError, match="not finite"):
            model.policy(tensors, deterministic)


@pytest.mark.parametrize("agent", [*PAPER_AGENTS, MaskedQRDQN])
def test_policy_by_itself_refuses_empty_masks(agent):
    model, obs = make_agent(agent), maze_observations(NUM_ROWS)
    obs[MASK_KEY][1] = 0
    with pytest.raises(ValueError, match="no action is available"):
        model.policy.predict(obs)


@pytest.mark.parametrize("agent", [*CRITICS_OF_DIMENSIONS, MaskedRecurrentPPO])
@greedy_and_sampled
def test_logits_below_the_masks_number(agent, deterministic):
    """Stable-Baselines3's distributions would choose among the unavailable."""
    model, obs = make_agent(agent), maze_observations(NUM_ROWS)
    model.policy.action_net.bias.data.fill_(-3e38)
    with pytest.raises(ValueError, match=r"not finite|chose an unavailable action"):
        model.predict(obs, deterministic=deterministic)


def test_available_values_ignore_unavailable_faults():
    values = th.tensor([[1.0, np.nan, 2.0], [np.inf, -3.0, -np.inf]])
    masks = th.tensor([[1, 0, 1], [0, 1, 0]], dtype=th.int8)
    expected = th.tensor([[1.0, -np.inf, 2.0], [-np.inf, -3.0, -np.inf]])
    assert th.equal(available_values(values, masks), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e38])
def test_available_values_need_a_finite_best_in_every_row(value):
    values = th.tensor([[1.0, 2.0], [value, value]])
    with pytest.raises(ValueError, match="not finite"):
        available_values(values, th.ones(2, 2))


def test_chosen_action_must_be_in_the_set():
    masks = np.array([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0]], np.int8)
    check_available(np.array([0, 2]), masks, [5])
    check_available(np.array([[0, 2], [1, 0]]), masks, [2, 3])
    check_available(np.array(4), masks[0], [5])
    for wrong, sizes in (([0, 3], [5]), ([[1, 2], [1, 0]], [2, 3])):
        with pytest.raises(ValueError, match="chose an unavailable action"):
            check_available(np.array(wrong), masks, sizes)
