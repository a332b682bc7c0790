"""Result files: whole or not there, and what is said of others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sas_agents.study import CorruptResultError, Run, Study, collect, load_study
from sas_agents.study.running._execution import unfinished
from sas_agents.study.storage._store import (
    find_run,
    is_finished,
    read_folder,
    read_result,
    result_path,
    training_seconds,
    variant_of,
    write_result,
)


@pytest.fixture
def folder(tiny: Study, tmp_path: Path, made_up: Callable[..., Any]) -> Path:
    for index, (_, run) in enumerate(tiny.runs()):
        write_result(tmp_path, made_up(run, [0.0, 5.0, 6.0 + 0.1 * index]))
    return tmp_path


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda text: text.replace('"seed": 0', '"seed": 77'),
        lambda text: text.replace('"format": 1', '"format": 99'),
        lambda text: text.replace('"mean_return"', '"mean"', 1),
        lambda _: '{"key": "nothing"}',
        lambda _: "[1, 2]",
    ],
)
def test_damaged_result_is_named_and_made_again(
    damage: Any, tiny: Study, folder: Path
) -> None:
    """A damaged file is named, skipped in tables, and repeated; the rest is kept."""
    run = tiny.runs()[0].run
    path = result_path(folder, run.key)
    path.write_text(damage(path.read_text()))
    with pytest.raises(CorruptResultError, match=str(path)):
        read_result(path)
    with pytest.warns(UserWarning, match=f"{path.name}.*`sas-study run` repeats it"):
        assert len(read_folder(folder)) == 11
    with pytest.warns(UserWarning, match="moved to .*corrupt, and the run is repeated"):
        left = unfinished(tiny.runs(), folder)
    assert [one.key for one in left] == [run.key]
    assert path.with_suffix(".corrupt").exists()


def test_half_written_temporary_file_is_not_a_result(tiny: Study, folder: Path) -> None:
    """What a killed process was writing does not count and does not disturb."""
    run = replace(tiny.runs()[0].run, seed=50)
    (folder / f".{run.key}.json.123.tmp").write_text("{")
    assert not is_finished(folder, run)
    assert len(read_folder(folder)) == 12


def test_collected_results_are_one_table(tiny: Study, folder: Path) -> None:
    """One call gives a row per run and evaluation, with scores."""
    frame = collect(folder, tiny.runs())
    assert len(frame) == 12 * 3
    assert frame.groupby("key").size().eq(3).all()
    assert frame.score.tolist() == pytest.approx((frame.mean_return / 10).tolist())
    assert set(frame.availability) == {0.2, 0.8}
    assert frame["train/weight_q_bar"].dropna().eq(-0.25).all()


def test_csv_holds_all_that_the_folder_holds(
    tiny: Study, folder: Path, tmp_path: Path
) -> None:
    """A table written as CSV is read by pandas, by `collect` and by `find_run`."""
    frame = collect(folder, tiny.runs())
    path = tmp_path / "results.csv.gz"
    frame.to_csv(path, index=False)
    assert len(pd.read_csv(path)) == len(frame)
    pd.testing.assert_frame_equal(collect(path, tiny.runs()), frame)
    run = tiny.runs()[3].run
    assert find_run(path, run.key[:8])[0] == run
    assert find_run(folder, f"{run.key}.json")[1]["mean_return"][0] == 0.0
    with pytest.raises(ValueError, match="no results whose key starts with 'zz'"):
        find_run(path, "zz")


def test_csv_keeps_the_empty_name_of_an_environment_alone(
    tiny: Study, folder: Path, tmp_path: Path
) -> None:
    """Pandas takes an empty text for a missing number, which no figure can sort."""
    frame = collect(folder, tiny.runs()).assign(variant="")
    frame.to_csv(tmp_path / "results.csv.gz", index=False)
    found = collect(tmp_path / "results.csv.gz", tiny.runs())
    assert found.variant.tolist() == [""] * len(frame)


def test_two_studies_share_a_folder(tiny: Study, folder: Path) -> None:
    """A study sees its own results only, under its own names."""
    renamed = replace(tiny.algorithms[1], name="Q-learning", algorithm="SASQ")
    other = replace(tiny, algorithms=(renamed,), num_seeds=2)
    frame = collect(folder, other.runs())
    assert set(frame.label) == {"Q-learning"}
    assert frame.key.nunique() == 4
    assert collect(folder).key.nunique() == 12


def test_newest_of_several_versions_counts(
    tiny: Study, folder: Path, made_up: Callable[..., Any]
) -> None:
    """A run made again with other versions replaces the old result in tables."""
    run = replace(tiny.runs()[0].run, versions={"torch": "9"})
    write_result(folder, made_up(run, [0.0, 1.0, 2.0], finished="2026-02-02"))
    frame = collect(folder, tiny.runs())
    assert frame.key.nunique() == 12
    assert run.key in set(frame.key)


def test_result_names_the_command_that_repeats_it(tiny: Study, folder: Path) -> None:
    """The command is the key's, wherever the file lies."""
    run = tiny.runs()[0].run
    result = json.loads(result_path(folder, run.key).read_text())
    assert result["command"] == f"sas-study repeat {run.key}.json"


def test_variants_have_short_names() -> None:
    """An availability is a number, a distribution of the sets its class."""
    assert variant_of({"availability": 0.8}) == "0.8"
    assert variant_of({"action_sets": {"Markov": [0.1, 0.05]}}) == "Markov(0.1, 0.05)"


def test_time_of_learning_leaves_evaluations_out() -> None:
    """Processor time where the file has it, and the clock's in older files."""
    old = {"seconds": 9.0, "evaluation_seconds": 4.0, "cpu_seconds": 7.0}
    assert training_seconds({"seconds": 9.0}) == 9.0
    assert training_seconds(old) == 5.0
    assert training_seconds({**old, "evaluation_cpu_seconds": 4.5}) == 2.5


PAPER = Path(__file__).parents[3] / "examples" / "paper" / "results"


@pytest.mark.parametrize("path", sorted(PAPER.glob("*.csv.gz")), ids=lambda p: p.name)
def test_committed_results_stay_readable(path: Path) -> None:
    """Each row has the key of its run, and the study finds its runs by settings."""
    frame = collect(path)
    for key, text in set(zip(frame.key, frame.run, strict=True)):
        assert Run.from_dict(json.loads(text)).key == key
    of_study = collect(path, load_study(path.name.partition(".")[0]).runs())
    assert set(of_study.key) == set(frame.key)
    assert of_study.score.notna().any()
