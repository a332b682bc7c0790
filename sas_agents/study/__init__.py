"""Studies: many runs from one declarative file, on all cores or a cluster.

A study's result is a file per run that says how to repeat it. On the command line it is
`sas-study`; from Python:

    from pathlib import Path
    from sas_agents.study import collect, load_study, run_study

    runs = load_study("quick").runs()
    run_study(runs, Path("results"))
    results = collect("results", runs)  # a pandas.DataFrame

A study runs anyone's algorithm in anyone's environment: see `AlgorithmSettings`.

Files to trust: a study file may name any callable of any module, which is then
imported and called. So may a result, or a row of a CSV file, that is repeated; a model
file is unpickled. Use files of people whom you trust, as you would run their code.

`sas_agents.study.statistics` and `sas_agents.study.figures` work on that table.
"""

from sas_agents.study._files import StorageError
from sas_agents.study.definition._algorithms import ALGORITHMS, Algorithm
from sas_agents.study.definition._presets import from_preset, load_presets, preset
from sas_agents.study.definition._runs import Evaluation, Run
from sas_agents.study.definition._settings import (
    AlgorithmSettings,
    EnvironmentSettings,
    SearchSettings,
    Study,
)
from sas_agents.study.definition._study_file import load_study
from sas_agents.study.running._backends import Backend
from sas_agents.study.running._execution import Report, run_study
from sas_agents.study.running._training import execute
from sas_agents.study.storage._format import CorruptResultError
from sas_agents.study.storage._table import collect

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "AlgorithmSettings",
    "Backend",
    "CorruptResultError",
    "EnvironmentSettings",
    "Evaluation",
    "Report",
    "Run",
    "SearchSettings",
    "StorageError",
    "Study",
    "collect",
    "execute",
    "from_preset",
    "load_presets",
    "load_study",
    "preset",
    "run_study",
]
