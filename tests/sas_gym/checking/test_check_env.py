"""The checker finds each fault, and its message says how to fix it."""

import ast
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib.common.envs import InvalidActionEnvDiscrete

import sas_gym

SIZE = 3
ROOT = Path(__file__).parents[3]


class Sound(gym.Env):
    """A user's environment that keeps the contract; each subclass breaks one part."""

    action_space = gym.spaces.Discrete(SIZE)
    observation_space: gym.Space[Any] = gym.spaces.Dict(
        observation=gym.spaces.Discrete(5), action_mask=gym.spaces.MultiBinary(SIZE)
    )
    metadata = {"render_modes": []}

    def draw_mask(self):
        mask = (self.np_random.random(SIZE) < 0.5).astype(np.int8)
        mask[0] = 1
        return mask

    def final_mask(self):
        return self.draw_mask()

    def observe(self):
        obs = {"observation": np.int64(self.place), "action_mask": self.mask.copy()}
        return obs, {"action_mask": self.mask.copy()}

    def action_masks(self):
        return self.mask.astype(bool)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        self.mask = self.draw_mask()
        return self.observe()

    def refuse(self, action):
        if not self.mask[action]:
            raise ValueError("unavailable")

    def step(self, action):
        self.refuse(action)
        self.place = (self.place + action + 1) % 5
        ended = bool(self.place == 4)
        self.mask = self.final_mask() if ended else self.draw_mask()
        obs, info = self.observe()
        return obs, 1.0, ended, False, info


class DrawsOnRead(Sound):
    def action_masks(self):
        return self.draw_mask().astype(bool)


class OffersNothing(Sound):
    def draw_mask(self):
        return (self.np_random.random(SIZE) < 0.3).astype(np.int8)


class OffersNothingAtTheEnd(Sound):
    def final_mask(self):
        return np.zeros(SIZE, np.int8)


class ReturnsTwoSets(Sound):
    def observe(self):
        obs, info = super().observe()
        info["action_mask"][0] = 0
        info["action_mask"][1] = 1
        return obs, info


class WrongShape(Sound):
    def observe(self):
        obs, info = super().observe()
        return obs, {"action_mask": info["action_mask"][:2]}


class BoolMask(Sound):
    """Allowed: masks are of any type."""

    dtype: Any = bool

    def observe(self):
        obs, info = super().observe()
        return obs, {"action_mask": info["action_mask"].astype(self.dtype)}


class FloatMask(BoolMask):
    dtype = np.float64


class WrongValues(Sound):
    def observe(self):
        obs, info = super().observe()
        return obs, {"action_mask": info["action_mask"] * 2}


class AcceptsAnything(Sound):
    def refuse(self, action):
        pass


class IsUnseeded(Sound):
    def draw_mask(self):
        mask = (np.random.default_rng().random(SIZE) < 0.5).astype(np.int8)
        mask[0] = 1
        return mask


class HidesItsMask(gym.Wrapper):
    """Removes the mask from every channel."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Discrete(5)

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)[0]["observation"], {}

    def step(self, action):
        obs, reward, terminated, truncated, _ = self.env.step(action)
        return obs["observation"], reward, terminated, truncated, {}

    def has_wrapper_attr(self, name):
        return name != "action_masks" and super().has_wrapper_attr(name)


class OnlyHasMethod(Sound):
    """Allowed: the mask is in one channel only."""

    observation_space = gym.spaces.Discrete(5)

    def observe(self):
        return np.int64(self.place), {}


class OnlyMethodDrawsOnRead(OnlyHasMethod):
    def action_masks(self):
        self.mask = self.draw_mask()
        return self.mask.astype(bool)


class MaskIsABox(Sound):
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Discrete(5),
        action_mask=gym.spaces.Box(0, 1, (SIZE,), np.int8),
    )


class RefusesQuietly(Sound):
    """Allowed: an unavailable action leaves everything as it is."""

    def step(self, action):
        if not self.mask[action]:
            obs, info = self.observe()
            return obs, 0.0, False, False, info
        return super().step(action)


def check(env, **options):
    sas_gym.check_env(env, skip_render_check=True, **options)


@pytest.mark.parametrize(
    "env_class",
    [Sound, RefusesQuietly, BoolMask, FloatMask, OffersNothingAtTheEnd],
)
def test_sound_environment_passes(env_class):
    check(env_class())


@pytest.mark.parametrize(
    ("env_class", "message"),
    [
        (DrawsOnRead, r"(differ|two different sets).*: draw the set once"),
        (OnlyMethodDrawsOnRead, "read twice .* gives two different sets: draw the set"),
        (OffersNothing, "offers no action: draw the set again"),
        (
            ReturnsTwoSets,
            r"observation\['action_mask'\] and info\['action_mask'\] differ",
        ),
        (
            WrongShape,
            r"info\['action_mask'\] must have one .* \(3,\); got shape \(2,\)",
        ),
        (WrongValues, "must be 1 where an action is available and 0 elsewhere"),
        (AcceptsAnything, "was unavailable, but step.. carried it out: raise a"),
        (IsUnseeded, "differs after reset.*draw everything, the action sets too"),
        (
            lambda: HidesItsMask(Sound()),
            r"after reset\(\): .*no action mask: .*return info",
        ),
    ],
)
def test_each_fault_is_found(env_class, message):
    with pytest.raises(AssertionError, match=message):
        check(env_class())


def test_must_refuse_false_skips_refusal():
    check(AcceptsAnything(), must_refuse=False)


def test_mask_from_method_alone_passes():
    check(OnlyHasMethod())


def test_sb3_contribs_environment_is_unseeded():
    """The environment of sb3-contrib's own tests draws from the global generator."""
    with pytest.raises(AssertionError, match="draw everything"):
        check(InvalidActionEnvDiscrete(dim=6, n_invalid_actions=3), must_refuse=False)


def test_gymnasiums_faults_are_found():
    class WrongObservation(Sound):
        def observe(self):
            obs, info = super().observe()
            return {**obs, "observation": np.int64(99)}, info

    with pytest.raises(
        AssertionError, match=r"observation'\] after .* not in its space Disc"
    ):
        check(WrongObservation())


def test_continuous_actions_error():
    with pytest.raises(AssertionError, match="need a Discrete, a MultiDiscrete or"):
        check(gym.make("Pendulum-v1"))


class Choices(Sound):
    """Allowed: several dimensions, with one entry per choice."""

    action_space: Any = gym.spaces.MultiDiscrete([2, 3], start=[0, 0])
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Discrete(5), action_mask=gym.spaces.MultiBinary(5)
    )

    def draw_mask(self):
        mask = (self.np_random.random(5) < 0.5).astype(np.int8)
        mask[[0, 2]] = 1
        return mask

    def refuse(self, action):
        if not (self.mask[action[0]] and self.mask[2 + action[1]]):
            raise ValueError("unavailable")

    def step(self, action):
        self.refuse(action)
        self.place += 1
        self.mask = self.draw_mask()
        obs, info = self.observe()
        return obs, 1.0, self.place == 4, False, info


class ChoicesAccepted(Choices):
    def refuse(self, action):
        pass

    def step(self, action):
        self.mask[0] = 1
        return super().step(action)


class Switches(Choices):
    action_space = gym.spaces.MultiBinary(3)
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Discrete(5), action_mask=gym.spaces.MultiBinary(6)
    )

    def draw_mask(self):
        mask = (self.np_random.random(6) < 0.5).astype(np.int8)
        mask[::2] = 1
        return mask

    def refuse(self, action):
        if not self.mask[np.array([0, 2, 4]) + action].all():
            raise ValueError("unavailable")


class UsersWrapper(gym.Wrapper):
    """Has no RecordConstructorArgs, as few wrappers of users have."""


make_sound: Any = Sound
gym.register("test_check_env/Sound-v0", make_sound, max_episode_steps=20)


@pytest.mark.parametrize("env_class", [Choices, Switches])
def test_several_dimensions_pass(env_class):
    check(env_class())


def test_refusal_is_checked_in_several_dimensions():
    with pytest.raises(AssertionError, match=r"action \[. .\] was unavailable"):
        check(ChoicesAccepted())


def test_registered_environment_in_a_users_wrapper_passes():
    """Gymnasium cannot make such an environment again from its spec."""
    sas_gym.check_env(UsersWrapper(gym.make("test_check_env/Sound-v0")))


@pytest.mark.parametrize(
    "env",
    ["test_check_env/Sound-v0", Sound, lambda: Sound(), Sound(), sas_gym.Recommender()],
    ids=["id", "class", "function", "instance", "task"],
)
def test_every_form_of_environment_is_taken(env):
    check(env)


class Agents:
    possible_agents = ("one", "two")


@pytest.mark.parametrize(
    ("env", "cure"),
    [
        (Agents(), "Agents has several agents, write a gymnasium.Env in which one"),
        (gym.make_vec("CartPole-v1"), "is many environments, pass one of them"),
        (7, "pass a gymnasium.Env, its id, or a function that makes it"),
    ],
)
def test_what_is_no_environment_gets_a_cure(env, cure):
    with pytest.raises(ValueError, match=f"no environment of Gymnasium: .*{cure}"):
        check(env)


def with_space(space, value):
    """Return a sound environment with another observation."""

    class Other(Sound):
        observation_space = space

        def observe(self):
            _, info = super().observe()
            return value, info

    return Other


BOX = gym.spaces.Box(0, 1, (2,))
PLACE = {"place": np.zeros(2, np.float32), "stock": np.int64(3)}
PLACE_SPACE = gym.spaces.Dict(place=BOX, stock=gym.spaces.Discrete(5))


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (
            BOX,
            np.array([0, np.nan], np.float32),
            r"the observation is not finite aft.*nan",
        ),
        (
            BOX,
            np.array([0, np.inf], np.float32),
            r"the observation is not finite aft.*inf",
        ),
        (BOX, [0.0, 0.0], "Box.*: it is list: make it a numpy array"),
        (BOX, np.zeros(3, np.float32), r"its space .*: its shape is \(3,\)"),
        (BOX, np.zeros(2), "its type is float64: convert it to float32"),
        (BOX, np.full(2, 3, np.float32), r"\[3.0, 3.0\] are outside its bounds"),
        (PLACE_SPACE, {"place": PLACE["place"]}, r"missing \['stock'\], unknown \[\]"),
        (PLACE_SPACE, PLACE | {"new": 1}, r"missing \[\], unknown \['new'\]"),
        (PLACE_SPACE, PLACE["place"], "is ndarray, but observation_space is a Dict"),
        (
            PLACE_SPACE,
            PLACE | {"place": np.full(2, np.nan, np.float32)},
            r"observation\['place'\] is not finite",
        ),
        (
            PLACE_SPACE,
            PLACE | {"stock": np.int64(5)},
            r"observation\['stock'\] .* not in its space Discrete\(5\): it is np.int64",
        ),
    ],
)
def test_wrong_observation_is_described(space, value, message):
    with pytest.raises(AssertionError, match=message):
        check(with_space(space, value)())


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (
            gym.spaces.Tuple([gym.spaces.Discrete(2)]),
            (np.int64(1),),
            r"nested.*MaskInObservation\(gymnasium.wrappers.FlattenObservation",
        ),
        (
            gym.spaces.Dict(part=PLACE_SPACE),
            {"part": PLACE},
            r"observation_space\['part'\] .* nested.*FlattenObservation",
        ),
        (gym.spaces.Text(5), "abc", "no array of a fixed shape.*TransformObservation"),
        (gym.spaces.Discrete(3, start=1), np.int64(1), "not counted from 0"),
        (gym.spaces.Box(0, 1, ()), np.zeros((), np.float32), r"give it the shape \(1,"),
    ],
)
def test_spaces_that_no_agent_takes_are_faults(space, value, message):
    with pytest.raises(AssertionError, match=message):
        check(with_space(space, value)())


def test_flattened_tuple_passes():
    env = with_space(
        gym.spaces.Tuple([gym.spaces.Discrete(2), BOX]), (1, PLACE["place"])
    )
    check(sas_gym.MaskInObservation(gym.wrappers.FlattenObservation(env())))


def returning(**parts):
    """Return a sound environment that returns something else in a step."""

    class Other(Sound):
        def step(self, action):
            names = ("observation", "reward", "terminated", "truncated", "info")
            values = dict(zip(names, super().step(action), strict=True)) | parts
            return tuple(value for value in values.values() if value is not Ellipsis)

    return Other


class OldReset(Sound):
    def reset(self):  # type: ignore[override]  # the fault
        return super().reset()


class OnlyObservation(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class RefusesAvailable(Sound):
    def refuse(self, action):
        raise TypeError("wrong type")


class FailsInReset(Sound):
    def reset(self, *, seed=None, options=None):
        raise AttributeError("no such thing")


@pytest.mark.parametrize(
    ("env_class", "message"),
    [
        (returning(reward=np.ones(2)), "reward must be one finite number, got array"),
        (returning(reward=None), "reward must be one finite number, got None"),
        (returning(reward=np.nan), "reward must be one finite number, got nan"),
        (returning(terminated=None), "terminated must be True or False, got None"),
        (returning(truncated=...), r"must return five values.*got a tuple of dict, f"),
        (returning(info=None), "must return five values.*NoneType"),
        (OldReset, r"OldReset.reset\(\) cannot be called.*seed=None, options=None"),
        (OnlyObservation, "must return an observation and an info.*got dict"),
        (RefusesAvailable, r"raised TypeError \(wrong type\), but the mask says"),
        (FailsInReset, r"reset\(\) raised AttributeError \(no such thing\)"),
    ],
)
def test_broken_interface_is_described(env_class, message):
    with pytest.raises(AssertionError, match=message):
        check(env_class())


class Foreign(Sound):
    """Like Jumanji's environments, of which Gymnasium's generator is missing."""

    @property
    def unwrapped(self):
        return object()


def test_environment_without_gymnasiums_generator_passes():
    check(Foreign())


def test_box_mask_passes_with_a_warning():
    with pytest.warns(UserWarning, match=r"make it MultiBinary\(3\) or wrap the env"):
        check(MaskIsABox())


def test_mask_under_another_name():
    class Named(Sound):
        observation_space = gym.spaces.Dict(
            observation=gym.spaces.Discrete(5), valid=gym.spaces.MultiBinary(SIZE)
        )
        action_masks: Any = None

        def observe(self):
            obs, _ = super().observe()
            return {"observation": obs["observation"], "valid": obs["action_mask"]}, {}

    check(Named(), mask="valid")


def test_optimised_python_checks_the_same():
    """`python -O` leaves assertions out, so that none may hold a check."""
    for path in (ROOT / "sas_gym").rglob("*.py"):
        tree = ast.parse(path.read_text())
        found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        assert not found, f"{path}, lines {found}: raise an error"


REPORTS: list[tuple[Any, dict[str, Any], list[str]]] = [
    (
        Sound,
        {},
        [
            r"mask +action_masks\(\), info\['act.*, observation\['act.*: they agree",
            "sets +1 to 3 of 3 available, 2.0 in the mean; never empty",
            "actions +0 in 100 %, 1 in [45]. %, 2 in [45]. %",
            r"episodes +\d+ in 300 steps, .* 0 of them truncated",
            r"random play +return [345]\.\d+ ± 0.\d+ .*over \d+ episodes",
            "speed +[0-9,]+ steps per second",
            "findings +none: agents take this environment",
        ],
    ),
    (
        OffersNothingAtTheEnd,
        {},
        ["empty in ([0-9]+) of \\1 final states, which is allowed", "findings +none"],
    ),
    (Choices, {}, ["actions +0:0 in 100 %, 0:1 in .*, 1:0 in 100 %, 1:1 in"]),
    (
        MaskIsABox,
        {},
        ["findings +1\n +1. observation_space.*MultiBinary"],
    ),
    (
        AcceptsAnything,
        {},
        ["findings +1\n +1. action . was unavailable, but step.. carried it out"],
    ),
    (AcceptsAnything, {"must_refuse": False}, ["findings +none"]),
    (
        DrawsOnRead,
        {},
        ["findings +1\n +1. .*(differ|two different sets).*: draw the set once"],
    ),
    (
        lambda: gym.make("Pendulum-v1"),
        {},
        ["findings +1\n +1. action masks need a Disc"],
    ),
    (
        sas_gym.Recommender(),
        {},
        ["actions +each in .* to .* % of the steps, median [78]. %", "none"],
    ),
]


@pytest.mark.parametrize(("env", "options", "lines"), REPORTS)
def test_report_has_the_facts_and_the_cures(env, options, lines, capsys):
    check(env, report=True, **options)
    printed = capsys.readouterr().out
    for line in lines:
        assert re.search(line, printed), printed
    assert len(printed.splitlines()) < 24  # one screen


def test_report_names_every_fault_of_a_stage(capsys):
    class Both(IsUnseeded, AcceptsAnything):
        pass

    check(Both(), report=True)
    printed = capsys.readouterr().out
    assert re.search("1. the .* differs after reset", printed)
    assert re.search("2. action . was unavailable", printed)
