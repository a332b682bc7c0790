"""The table "Can I use?" of `help(sas_agents)`: every cell of it is tried."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from helpers.agents import SHORT
from helpers.strict import Strict
from stable_baselines3.common.vec_env import DummyVecEnv

import sas_agents
from sas_agents import MaskedRecurrentPPO

IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
ACTIONS: dict[str, spaces.Space[Any]] = {
    "Discrete": spaces.Discrete(5),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-1.0, 1.0, (2,)),
}
OBSERVATIONS: dict[str, tuple[str, spaces.Space[Any]]] = {
    "image": ("Cnn", IMAGE),
    "dict": ("MultiInput", spaces.Dict({"x": spaces.Discrete(3), "picture": IMAGE})),
}


def table() -> dict[tuple[str, str], str]:
    """Return the cells of the table by agent and column."""
    assert sas_agents.__doc__ is not None
    lines = sas_agents.__doc__.split("Can I use?")[1].split("\n")
    ruled = [index for index, line in enumerate(lines) if line.startswith("===")]
    columns = lines[ruled[0] + 1].split()[1:]
    cells: dict[tuple[str, str], str] = {}
    for line in lines[ruled[1] + 1 : ruled[2]]:
        *agents, rest = line.replace("*", "").split(", ")
        name, *entries = rest.split()
        for agent in (*agents, name):
            cells |= {
                (agent, column): entry
                for column, entry in zip(columns, entries, strict=True)
            }
    return cells


CELLS = table()


def test_table_is_complete():
    columns = {*ACTIONS, *OBSERVATIONS, "memory"}
    assert set(CELLS) == {
        (agent.__name__, column) for agent in SHORT for column in columns
    }


@pytest.mark.parametrize(("agent", "column"), CELLS)
def test_cell(agent, column):
    """Trained where the table says yes, refused where it says no."""
    algorithm = getattr(sas_agents, agent)
    kind, observations = OBSERVATIONS.get(column, ("Mlp", None))
    actions = ACTIONS.get(column, ACTIONS["Discrete"])
    lstm = "Lstm" if algorithm is MaskedRecurrentPPO else ""

    def learn():
        env = DummyVecEnv([lambda: Strict(actions, 7, observations)] * 2)
        policy = f"{kind}{lstm}Policy"
        return algorithm(policy, env, seed=0, device="cpu", **SHORT[algorithm]).learn(
            70
        )

    cell = CELLS[agent, column]
    if column == "memory":
        model = learn()
        _, state = model.predict(model.env.reset())
        assert cell == ("no" if state is None else "LSTM")
    elif cell == "yes":
        assert learn().num_timesteps >= 70
    else:
        assert cell == "no"
        with pytest.raises((ValueError, AssertionError), match=column):
            learn()
