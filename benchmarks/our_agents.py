"""The agents of this package, from the table that studies use."""

from typing import Any

from sas_agents.study.definition._algorithms import ALGORITHMS
from sas_agents.study.definition._environments import locate

AGENTS: dict[str, Any] = {
    name: locate(entry.location)
    for name, entry in ALGORITHMS.items()
    if entry.location.startswith("sas_agents:")
}
