"""With default arguments a seed replays what it has always replayed."""

import json

import pytest
from helpers.streams import PATH, digests

from sas_gym import SPECS

STORED = json.loads(PATH.read_text())


@pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])
def test_seed_replays_the_stored_masks_rewards_and_observations(env_id):
    """The arrays of an id change only with a new `-vN`."""
    assert digests(env_id) == STORED[env_id]
