"""The agents on a GPU: run where there is one, and skipped elsewhere."""

from typing import Any

import numpy as np
import pytest
import torch as th
from helpers.agents import all_agents, assert_differ, everything_learned, make_agent
from helpers.agents import maze_observations as observations

from sas_gym.masks import MASK_KEY

every_policy = pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])


@pytest.fixture(params=["cuda", "mps"])
def device(request: pytest.FixtureRequest) -> str:
    """A device, if a tensor can be made there."""
    name: str = request.param
    try:
        th.zeros(1, device=name)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        pytest.skip(f"{name}: {str(error).splitlines()[0]}")
    return name


def to_cpu(learned: dict[str, Any]) -> dict[str, Any]:
    return {name: tensor.cpu() for name, tensor in learned.items()}


@all_agents
@every_policy
def test_agents_learn_and_predict(agent, policy, device):
    model = make_agent(agent, policy=policy, device=device)
    before = to_cpu(everything_learned(model))
    model.learn(100)
    assert {p.device.type for p in model.policy.parameters()} == {device}
    assert_differ(before, to_cpu(everything_learned(model)))
    obs = observations(20)
    for deterministic in (True, False):
        actions, _ = model.predict(obs, deterministic=deterministic)
        assert (obs[MASK_KEY][np.arange(20), actions] == 1).all()


@all_agents
@every_policy
def test_file_loads_on_the_cpu(agent, policy, device, tmp_path):
    """And back: the values of a network agree to single precision."""
    model = make_agent(agent, policy=policy, device=device).learn(60)
    model.save(tmp_path / "there")
    here = agent.load(tmp_path / "there", device="cpu")
    here.save(tmp_path / "here")
    back = agent.load(tmp_path / "here", device=device)
    found = [to_cpu(everything_learned(one)) for one in (model, here, back)]
    for name, tensor in found[0].items():
        assert all(th.equal(tensor, other[name]) for other in found[1:])
    obs = observations(20)
    actions, _ = here.predict(obs, deterministic=True)
    there, _ = model.predict(obs, deterministic=True)
    assert np.mean(actions == there) >= 0.9  # ties may go another way


@all_agents
def test_predictions_leave_training_alone(agent, device):
    """Each device has a random generator of its own."""
    model = make_agent(agent, device=device)
    th.manual_seed(3)
    expected = th.rand(3, device=device)
    th.manual_seed(3)
    model.predict(observations(3), deterministic=False)
    assert th.equal(th.rand(3, device=device), expected)


@all_agents
def test_weights_that_are_not_finite_stop_learning(agent, device):
    model = make_agent(agent, device=device)
    for parameter in model.policy.parameters():
        parameter.data.fill_(np.nan)
    with pytest.raises(ValueError, match="not finite"):
        model.learn(200)
