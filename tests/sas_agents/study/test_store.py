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
    is_finished,
    read_folder,
    read_result,
    result_path,
    write_result,
)
from sas_agents.study.storage._table import find_run, training_seconds, variant_of


@pytest.fixture
def folder(tiny: Study, tmp_path: Path, made_up: Callable[..., Any]) -> Path:
    for index, (_, run) in enumerate(tiny.runs()):
        write_result(tmp_path, made_up(run, [0.0, 5.0, 6.0 + 0.1 * index]))
    return tmp_path


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    """Return a damage that changes something in a result."""

    def damage(text: str) -> str:
        result = json.loads(text)
        change(result)
        return json.dumps(result)

    return damage


DAMAGES: dict[str, Callable[[str], str]] = {
    "half": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "no text": lambda _: "\x00",
    "another run": lambda text: text.replace('"seed": 0', '"seed": 77'),
    "another format": lambda text: text.replace('"format": 2', '"format": 99'),
    "no means": lambda text: text.replace('"mean_return"', '"mean"', 1),
    "nothing": lambda _: '{"key": "nothing"}',
    "a list": lambda _: "[1, 2]",
    "text for a mean": edited(lambda r: r["curve"].update(mean_return=["a"] * 3)),
    "one number": edited(lambda r: r["curve"].update(mean_return=1.0)),
    "a short column": edited(lambda r: r["curve"]["mean_return"].pop()),
    "falling steps": edited(lambda r: r["curve"]["step"].reverse()),
    "no steps": edited(lambda r: [c.clear() for c in r["curve"].values()]),
    "text for the optimum": edited(lambda r: r.update(optimal="high")),
    "no optimum": edited(lambda r: r.pop("optimal")),
    "no final": edited(lambda r: r.pop("final")),
    "text for a final": edited(lambda r: r["final"].update(sampled="good")),
    "true for a final": edited(lambda r: r["final"]["greedy"].update(mean_return=True)),
    "another way": edited(lambda r: r["final"].update(wild=r["final"]["greedy"])),
    "no time": edited(lambda r: r["timing"].pop("finished")),
    "text for seconds": edited(lambda r: r["timing"].update(seconds="long")),
    "number for the run": edited(lambda r: r.update(run=3)),
    "number for versions": edited(lambda r: r["run"].update(versions=3)),
    "number for the log": edited(lambda r: r["run"]["evaluation"].update(log=3)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_result_is_named_and_made_again(
    damage: str, tiny: Study, folder: Path
) -> None:
    """A damaged file is named, skipped in tables, and repeated; the rest is kept."""
    run = tiny.runs()[0].run
    path = result_path(folder, run.key)
    path.write_text(DAMAGES[damage](path.read_text()))
    with pytest.raises(CorruptResultError, match=str(path)):
        read_result(path)
    with pytest.warns(UserWarning, match=f"{path.name}.*`sas-study run` repeats it"):
        assert collect(folder).key.nunique() == 11
    with pytest.warns(UserWarning, match="moved to .*corrupt, and the run is repeated"):
        left = unfinished(tiny.runs(), folder)
    assert [one.key for one in left] == [run.key]
    assert path.with_suffix(".corrupt").exists()


def test_older_result_counts_its_last_evaluation_as_final(
    tiny: Study, folder: Path
) -> None:
    """All its runs share the luck of the episodes, which its spread does not show."""
    (label, run) = tiny.runs()[0]
    path = result_path(folder, run.key)
    old = json.loads(path.read_text())
    del old["final"], old["rule"]
    path.write_text(json.dumps({**old, "format": 1}))
    frame = collect(folder)
    mine = frame[frame.key == run.key]
    assert mine.evaluation.tolist() == ["curve", "curve", "final"]
    final = mine.iloc[-1]
    assert (final.mean_return, final.shared_error) == (6.0, 0.1)
    assert final["train/weight_v_hat"] == -0.5
    assert label == "SASPG"
    assert final.acting == "sampled"


def test_half_written_temporary_file_is_not_a_result(tiny: Study, folder: Path) -> None:
    """What a killed process was writing does not count and does not disturb."""
    run = replace(tiny.runs()[0].run, seed=50)
    (folder / f".{run.key}.json.123.tmp").write_text("{")
    assert not is_finished(folder, run)
    assert len(read_folder(folder)) == 12


def test_collected_results_are_one_table(tiny: Study, folder: Path) -> None:
    """One call gives a row per run and evaluation, with scores."""
    frame = collect(folder, tiny.runs())
    is_final = frame.evaluation == "final"
    assert frame[~is_final].groupby("key").size().eq(3).all()
    ways = frame[is_final].groupby("label").acting.agg(set).to_dict()
    assert ways == {"SASPG": {"sampled", "greedy"}, "SASQ": {"greedy"}}
    assert frame.score.tolist() == pytest.approx((frame.mean_return / 10).tolist())
    assert set(frame.availability) == {0.2, 0.8}
    assert frame["train/weight_q_bar"].dropna().eq(-0.25).all()
    assert frame[is_final].shared_error.eq(0).all()


def test_same_run_from_two_sources_counts_once(
    tiny: Study, folder: Path, tmp_path: Path, made_up: Callable[..., Any]
) -> None:
    """A reference as CSV and one's own folder, which have some runs in common."""
    part = tiny.part(num_seeds=2)
    reference = tmp_path / "reference.csv.gz"
    collect(folder, tiny.runs()).to_csv(reference, index=False)
    mine = tmp_path / "mine"
    mine.mkdir()
    for _, run in part.runs():
        write_result(mine, made_up(run, [0.0, 5.0, 6.0]))
    both = collect([mine, reference], tiny.runs())
    assert both.key.nunique() == 12
    assert len(both) == len(collect(folder, tiny.runs()))
    own = {run.key for _, run in part.runs()}
    ends = both[(both.evaluation == "final") & both.key.isin(own)]
    assert ends.mean_return.eq(6.0).all()


def test_edited_row_of_a_csv_is_left_out(
    tiny: Study, folder: Path, tmp_path: Path
) -> None:
    """A run that is not the one of its key is never read, and so never repeated."""
    path = tmp_path / "results.csv"
    frame = collect(folder, tiny.runs())
    run = tiny.runs()[0].run
    bad = frame.run[frame.key == run.key].str.replace(
        "SAS/SanFrancisco-v0", "subprocess:getoutput"
    )
    frame.assign(run=bad.reindex(frame.index).fillna(frame.run)).to_csv(path)
    with pytest.warns(UserWarning, match="1 runs contradict their keys"):
        assert set(collect(path).key) == set(frame.key) - {run.key}
    with (
        pytest.warns(UserWarning, match="edited"),
        pytest.raises(ValueError, match="no results whose key"),
    ):
        find_run([path], run.key)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "no column 'key'"),
        (b"", "not a CSV file of results"),
        (b"\x1f\x8b\x08\x00", "not a CSV file of results"),
        (b"\xff\xfe\xff", "not a CSV file of results"),
    ],
)
@pytest.mark.parametrize("name", ["results.csv", "results.csv.gz"])
def test_file_that_is_no_table_of_results_is_named(
    content: bytes, message: str, name: str, tmp_path: Path
) -> None:
    """One error that says what such a file is."""
    path = tmp_path / name
    path.write_bytes(content)
    cause = message if name == "results.csv" else "not a CSV file of results"
    with pytest.raises(ValueError, match=cause):
        collect(path)


def test_truncated_and_mistyped_tables_are_named(
    tiny: Study, folder: Path, tmp_path: Path
) -> None:
    """A file of which half is missing, and a text where numbers must be."""
    frame, path = collect(folder, tiny.runs()), tmp_path / "results.csv.gz"
    frame.to_csv(path, index=False)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a CSV file of results"):
        collect(path)
    frame.assign(mean_return="high").to_csv(path, index=False)
    with pytest.raises(ValueError, match="'mean_return' must hold numbers only"):
        collect(path)


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
    assert find_run([path], run.key[:8])[0] == run
    assert find_run([folder], f"{run.key}.json")[1]["mean_return"] == [0.0, 5.0, 6.3]
    with pytest.raises(ValueError, match="no results whose key starts with 'zz'"):
        find_run([path], "zz")


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


# Its sets belonged to actions, where those of the study belong to roads.
OLDER_SETS = "assumptions.csv.gz"
PAPER = Path(__file__).parents[3] / "examples" / "paper" / "results"


@pytest.mark.parametrize("path", sorted(PAPER.glob("*.csv.gz")), ids=lambda p: p.name)
def test_committed_results_stay_readable(path: Path) -> None:
    """Each row has the key of its run, and the study finds its runs by settings."""
    frame = collect(path)
    for key, text in set(zip(frame.key, frame.run, strict=True)):
        assert Run.from_dict(json.loads(text)).key == key
    if path.name == OLDER_SETS:
        return
    of_study = collect(path, load_study(path.name.partition(".")[0]).runs())
    assert set(of_study.key) == set(frame.key)
    assert of_study.score.notna().any()
