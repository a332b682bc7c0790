"""Signatures are complete: Stable-Baselines3's arguments, in its order, documented."""

import inspect
import re
from collections.abc import Container
from inspect import Parameter
from typing import Any

import pytest
from helpers.agents import every_agent, make_agent, make_maze
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.dqn.policies import DQNPolicy

import sas_agents
from sas_agents import SASNPG, SASPG, SASQ, SASPolicy, SASQPolicy, make_vec_env

# Arguments of PPO that have no meaning for us: its loss, exploration of continuous
# actions and rollout buffer.
PPO_ONLY = {
    "clip_range_vf",
    "normalize_advantage",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "use_sde",
    "sde_sample_freq",
    "rollout_buffer_class",
    "rollout_buffer_kwargs",
}
# The same for the policies: Gaussian policies and networks that share layers.
ACTOR_CRITIC_ONLY = {
    "ortho_init",
    "log_std_init",
    "full_std",
    "use_expln",
    "squash_output",
    "share_features_extractor",
}
# The originals document their own constructors, which these keep.
SB3S_OWN = "A2C", "PPO", "QRDQN", "RecurrentPPO", "TRPO"
PUBLIC = [getattr(sas_agents, name) for name in sas_agents.__all__]


def parameters(function: Any) -> dict[str, Parameter]:
    return dict(inspect.signature(function).parameters)


def names(function: Any, without: Container[str] = ()) -> list[str]:
    return [name for name in parameters(function) if name not in without]


@pytest.mark.parametrize(
    ("ours", "sb3s", "without"),
    [
        (SASPG, PPO, PPO_ONLY),
        (SASNPG, PPO, {*PPO_ONLY, "clip_range"}),
        (SASQ, DQN, set()),
        (SASPolicy, ActorCriticPolicy, ACTOR_CRITIC_ONLY),
        (SASQPolicy, DQNPolicy, set()),
        (make_vec_env, sb3_make_vec_env, set()),
    ],
)
def test_sb3s_arguments_in_sb3s_order(ours, sb3s, without):
    """Ours may stand between them; DQN's and `make_vec_env`'s come first."""
    expected = names(sb3s, without)
    assert [name for name in names(ours) if name in expected] == expected
    if not without:
        assert names(ours)[: len(expected)] == expected


def test_make_vec_env_has_sb3s_defaults():
    ours, sb3s = parameters(make_vec_env), parameters(sb3_make_vec_env)
    assert {name: p.default for name, p in ours.items()} == {
        name: p.default for name, p in sb3s.items()
    } | {"mask_in_observation": True, "mask": None}


@pytest.mark.parametrize("public", PUBLIC, ids=sas_agents.__all__)
def test_arguments_are_written_out_and_documented(public):
    """The other policies inherit those of `SASPolicy` and `SASQPolicy`."""
    init = public if inspect.isfunction(public) else public.__init__
    owner_name = init.__qualname__.split(".")[0]
    if owner_name in SB3S_OWN:
        assert f"`{owner_name}`" in public.__doc__
        return
    owner = getattr(sas_agents, owner_name)
    doc = inspect.getdoc(owner) or ""
    if public is not owner:
        assert f"`{owner.__name__}`" in public.__doc__
    for name, parameter in parameters(public).items():
        assert parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        assert re.search(rf"^    {name}: \S", doc, re.MULTILINE), name


@every_agent
def test_defaults_are_the_ones_in_the_signature(agent):
    model = agent("LinearPolicy", make_maze())
    # These are converted: to a device, a tensor, and SB3's own type.
    converted = {"device", "baseline_weights", "train_freq"}
    for name, parameter in parameters(agent).items():
        if parameter.default is not Parameter.empty and name not in converted:
            value = getattr(model, name, parameter.default)
            resolved = parameter.default is None or name == "policy_kwargs"
            assert resolved or value == parameter.default, name


@every_agent
@pytest.mark.parametrize("name", ["wings", *sorted(PPO_ONLY)])
def test_unused_arguments_are_rejected(agent, name):
    if name not in parameters(agent):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            agent("LinearPolicy", make_maze(), **{name: 0.5})
    else:
        assert (agent, name) == (SASQ, "max_grad_norm")


@pytest.mark.parametrize(("agent", "sb3s"), [(SASPG, PPO), (SASNPG, PPO), (SASQ, DQN)])
def test_learn_has_sb3s_arguments(agent, sb3s):
    ours, theirs = parameters(agent.learn), parameters(sb3s.learn)
    assert list(ours) == list(theirs)
    for name in set(ours) - {"tb_log_name"}:
        assert ours[name].default == theirs[name].default


@every_agent
def test_learn_takes_positional_arguments(agent):
    model = make_agent(agent)
    model.learn(60, None, 1, "run", True, False)
    assert model.num_timesteps >= 60
    with pytest.raises(TypeError, match="unexpected keyword argument 'wings'"):
        model.learn(60, wings=2)
