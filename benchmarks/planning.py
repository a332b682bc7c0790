"""Time and memory of planning on road graphs of growing size, on one core.

OMP_NUM_THREADS=1 python benchmarks/planning.py
"""

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import Delaunay

from sas_gym import Routing
from sas_gym._types import Floats
from sas_gym.planning import TabularSASMDP, policy_iteration
from sas_gym.planning._bellman import discounted_sums, optimal_backup

SIZES = (1_000, 10_000, 100_000)
ROADS_PER_NODE = 3.0
KILOBYTES_PER_MEGABYTE = 1024
BYTES_PER_MEGABYTE = 1024**2


def road_graph(num_nodes: int, seed: int = 0) -> Routing:
    """Make a road-like graph: planar, connected, three roads per node.

    Its links are those of a triangulation of random points: the minimum spanning tree,
    then the shortest of the others. Each road is open with its own probability, and
    waiting is always possible.
    """
    rng = np.random.default_rng(seed)
    points = rng.random((num_nodes, 2)) * np.sqrt(num_nodes)
    corners = Delaunay(points).simplices
    links = np.unique(
        np.sort(corners[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)), axis=0
    )
    length = np.linalg.norm(points[links[:, 0]] - points[links[:, 1]], axis=1)
    shape = (num_nodes, num_nodes)
    tree = csgraph.minimum_spanning_tree(
        sparse.csr_array((length, (links[:, 0], links[:, 1])), shape=shape)
    ).tocoo()
    in_tree = np.isin(
        links @ [num_nodes, 1], tree.row.astype(np.int64) * num_nodes + tree.col
    )
    order = np.lexsort((length, ~in_tree))[: int(ROADS_PER_NODE * num_nodes / 2)]
    tail, head = np.concatenate([links[order], links[order][:, ::-1]]).T
    return Routing(
        tail,
        head,
        -np.tile(length[order], 2),
        np.tile(rng.uniform(0.2, 1.0, len(order)), 2),
        num_nodes=num_nodes,
        goal=0,
        wait_cost=0.5,
    )


def measure(mdp: TabularSASMDP, results: Connection) -> None:
    """Solve a task in a fresh process; send time, memory and a bound on the error."""
    before = peak_megabytes()
    start = time.perf_counter()
    plan = policy_iteration(mdp)
    seconds, memory = time.perf_counter() - start, peak_megabytes() - before
    results.send((seconds, memory, error_bound(mdp, plan.values)))


def error_bound(mdp: TabularSASMDP, values: Floats) -> float:
    """Bound the error: the change of one backup times the expected number of steps."""
    new, action_probs = optimal_backup(mdp, values)
    steps = discounted_sums(mdp, action_probs, np.ones(mdp.num_states))
    return float(np.abs(new - values).max() * steps.max())


def peak_megabytes() -> float:
    """Return the peak memory of this process (on Linux)."""
    # Not `getrusage`: there a new process inherits its parent's peak.
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) / KILOBYTES_PER_MEGABYTE


def main() -> None:
    """Print a table; each size is solved in a process of its own."""
    print(f"{'nodes':>8} {'seconds':>8} {'MB':>6} {'bytes / node':>13} {'error':>8}")
    context = multiprocessing.get_context("spawn")
    for size in SIZES:
        receiver, sender = context.Pipe(duplex=False)
        mdp = road_graph(size).tabular()
        process = context.Process(target=measure, args=(mdp, sender))
        process.start()
        seconds, memory, error = receiver.recv()
        process.join()
        per_node = memory * BYTES_PER_MEGABYTE / size
        print(f"{size:8} {seconds:8.2f} {memory:6.0f} {per_node:13.0f} {error:8.0e}")


if __name__ == "__main__":
    main()
