"""A real local Ray cluster of two nodes, one of which is killed midway."""

from pathlib import Path
from typing import Any

import pytest

from sas_agents.study import Backend, Study, load_study, run_study
from sas_agents.study.running._backends import run_on_ray
from sas_agents.study.running._training import execute
from sas_agents.study.storage._store import read_folder

ray = pytest.importorskip("ray")
# Ray's own code warns of what its dependencies will drop.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cluster() -> Any:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_study_completes_when_a_node_is_killed(
    cluster: Any, tiny: Study, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """One of two nodes is killed: every run still has its one, equal result."""
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    runs = [run for _, run in tiny.part(num_seeds=2).runs()]
    keys = []
    for outcome in run_on_ray(execute, runs, address=None):
        assert outcome.error is None
        keys.append(outcome.answer["key"])
        assert outcome.answer["curve"] == undisturbed[keys[-1]]["curve"]
        if len(keys) == 2:
            cluster.remove_node(node, allow_graceful=False)
    assert sorted(keys) == sorted(run.key for run in runs)
    # The study itself, on the node that is left, adds what is missing.
    report = run_study(
        tiny.part(num_seeds=1).runs(), tmp_path, Backend("ray"), progress=False
    )
    assert len(report.written) == 4
    assert {result["key"] for result in read_folder(tmp_path)} < set(keys)


@pytest.mark.usefixtures("cluster")
def test_error_in_a_run_is_returned() -> None:
    """An error of one run is its outcome; the others come through."""
    names = ["quick", "none", "paper"]
    outcomes = {o.item: o for o in run_on_ray(load_study, names, address=None)}
    assert isinstance(outcomes["quick"].answer, Study)
    assert isinstance(outcomes["paper"].answer, Study)
    assert "there is no study file 'none'" in str(outcomes["none"].error)
