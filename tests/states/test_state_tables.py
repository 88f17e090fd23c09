"""Recorded states in tables and arrays: columns found by name, episodes cut, mistakes named."""

from __future__ import annotations

import contextlib
import warnings

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pivec
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.options import TableOptions
from pivec.states import RecordedStates, VisitedStates, find_recorded, import_recorded, moves_of
from pivec.states.export import export, write_parquet


def test_thinned_states_stay_thinned(tmp_path, rng):
    walks = [[rng.normal(size=(n, 2)).astype(np.float32) for n in row] for row in ([41, 2], [9])]
    actions = [[np.arange(len(walk) - 1) for walk in row] for row in walks]
    data = VisitedStates.from_arrays(walks, labels=["long", "short"], actions=actions)
    options = {"environment": "CartPole-v1", "max_states_per_policy": 20}
    thin = import_recorded([data], tmp_path / "thin", **options)
    assert [record.every for record in thin.records] == [4, 1]
    write_parquet(thin, tmp_path / "states.parquet")
    export(tmp_path / "thin", f"npz:{tmp_path / 'arrays'}")
    assert thin.to_pandas()["step"].tolist()[:4] == [0, 1, 8, 9]
    for source in (tmp_path / "states.parquet", f"npz:{tmp_path / 'arrays'}"):
        back = RecordedStates(find_recorded(source)).run()
        assert_equal(back, thin)
        np.testing.assert_array_equal(back.episode_steps, thin.episode_steps)
        np.testing.assert_array_equal(moves_of(back).states, moves_of(thin).states)
        assert [record.every for record in back.records] == [4, 1]
    with pytest.raises(UsageError, match="'long'"):
        export(tmp_path / "thin", "minari:walk/thinned-v0")
    # Rows that were removed since would become steps that nobody took.
    cut = pq.read_table(tmp_path / "states.parquet").slice(2)
    pq.write_table(cut, tmp_path / "states.parquet")
    with pytest.raises(BadData, match="episode 0 of long"):
        RecordedStates(find_recorded(tmp_path / "states.parquet")).run()


@pytest.fixture
def kept(rng):
    """States of three policies with everything that a store knows of them."""
    lengths = [[5, 3], [4], [6, 2, 3]]
    walks = [[rng.normal(size=(n, 2)).astype(np.float32) for n in row] for row in lengths]
    data = VisitedStates.from_arrays(
        walks,
        labels=["ppo/100", "ppo/200", "human"],
        groups=["ppo", "ppo", ""],
        steps=[100, 200, None],
        returns=[[1.5, -2], [np.nan], [0, 1, 2]],
        actions=[[rng.integers(0, 5, n - 1) for n in row] for row in lengths],
        feature_names=["x", "step"],
        environment="Walk-v0",
    )
    for number, record in enumerate(data.records):
        record.episodes["seed"] = 2**60 + 7 * number + np.arange(len(record.episodes))
        record.episodes["terminated"] = np.arange(len(record.episodes)) % 2
        record.episodes["truncated"] = ~record.episodes["terminated"]
    return VisitedStates(data.records, data.feature_names, data.environment)


def assert_equal(a, b):
    assert a.labels == b.labels
    assert a.groups == b.groups
    assert a.steps == b.steps
    assert a.feature_names == b.feature_names
    for name in ("states", "lengths", "returns", "seeds", "terminated", "truncated", "actions"):
        left, right = getattr(a, name), getattr(b, name)
        assert left.dtype == right.dtype
        assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), name


def frame_of(rng, labels=("a", "b"), episodes=2, steps=4):
    """A log as people write it: one row a state, with an action and a reward."""
    rows = [
        (label, episode, step, *rng.normal(size=2), step % 2, 1.0, step == steps - 1)
        for label in labels
        for episode in range(episodes)
        for step in range(steps)
    ]
    names = ["agent", "episode", "t", "x", "y", "action", "reward", "done"]
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_what_export_writes_comes_back(tmp_path, kept, shape, rng):
    records = []
    for record in kept.records:
        states, actions = record.read_arrays()
        moves = rng.normal(size=(len(actions), *shape)).astype(np.float32) if shape else actions
        records.append(type(record).in_memory(record.info, record.episodes, (states, moves)))
    data = VisitedStates(records, kept.feature_names, kept.environment)
    write_parquet(data, tmp_path / "states.parquet")
    back = import_recorded([tmp_path / "states.parquet"], tmp_path / "back")
    assert_equal(back, data)
    assert back.environment == "Walk-v0"
    export(tmp_path / "back", f"npz:{tmp_path / 'arrays'}")
    again = import_recorded([tmp_path / "arrays"], tmp_path / "again").select(data.labels)
    assert_equal(again, data)


def test_frames_of_all_kinds_are_the_same(tmp_path, kept, rng):
    frame = kept.to_pandas()
    for kind in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        back = VisitedStates.from_pandas(kind, feature_columns=["x", "state.step"])
        assert back.feature_names == ("x", "state.step")
        assert np.array_equal(back.states, kept.states)
        assert back.seeds.tolist() == kept.seeds.tolist()
        assert back.actions.tolist() == kept.actions.tolist()
    log = frame_of(rng)
    log.to_parquet(tmp_path / "log.parquet", row_group_size=3)
    log.to_csv(tmp_path / "log.csv", index=False)
    log.to_csv(tmp_path / "log.tsv", index=False, sep="\t")
    log.to_feather(tmp_path / "log.feather")
    expected = VisitedStates.from_pandas(log)
    assert expected.labels == ("a", "b")
    assert expected.feature_names == ("x", "y")
    assert expected.returns.tolist() == [4.0] * 4
    assert expected.terminated.all()
    assert expected.actions.tolist() == [0, 1, 0] * 4
    for suffix in ("parquet", "csv", "tsv", "feather"):
        back = import_recorded([tmp_path / f"log.{suffix}"], tmp_path / suffix)
        assert_equal(back, expected)


def test_rows_may_come_in_any_order(rng):
    frame = frame_of(rng, episodes=3)
    mixed = frame.sample(frac=1.0, random_state=0)
    expected, data = VisitedStates.from_pandas(frame), VisitedStates.from_pandas(mixed)
    for label in "ab":
        mine = {episode.tobytes() for episode in data[label].episodes()}
        assert mine == {episode.tobytes() for episode in expected[label].episodes()}


def test_episodes_are_found_without_a_number(rng):
    frame = frame_of(rng).drop(columns="episode")
    by_time = VisitedStates.from_pandas(frame.drop(columns="done"))
    by_end = VisitedStates.from_pandas(frame.drop(columns="t"))
    by_length = VisitedStates.from_pandas(frame.drop(columns=["t", "done"]), episode_length=4)
    for data in (by_time, by_end, by_length):
        assert data.lengths.tolist() == [4] * 4
    with pytest.raises(BadData, match="--episode-length"):
        VisitedStates.from_pandas(frame.drop(columns=["t", "done"]))
    with pytest.raises(BadData, match="time"):
        VisitedStates.from_pandas(frame.sample(frac=1.0, random_state=1).drop(columns="done"))


def test_policies_are_named_by_run_and_step_or_by_the_file(tmp_path, rng):
    frame = frame_of(rng, labels=(1000, 2000)).rename(columns={"agent": "checkpoint"})
    runs = VisitedStates.from_pandas(frame.assign(run="ppo"))
    assert runs.labels == ("ppo/1000", "ppo/2000")
    assert runs.groups == ("ppo", "ppo")
    assert runs.steps == (1000, 2000)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        frame_of(rng, "a").drop(columns="agent").to_csv(tmp_path / name / "log.csv", index=False)
    both = import_recorded([tmp_path / "one", tmp_path / "two"], tmp_path / "store")
    assert both.labels == ("one/log", "two/log")
    assert import_recorded([tmp_path / "one/log.csv"], tmp_path / "s").labels == ("log",)


def test_lists_in_columns_are_states_and_actions(rng):
    table = pa.table(
        {
            "episode": ["e", "e", "f", "f"],
            "observation": pa.array(rng.normal(size=(4, 3)).tolist()),
            "action": pa.array([[1.0, 2.0], None, [3.0, 4.0], None]),
        }
    )
    data = VisitedStates.from_pandas(table)
    assert data.feature_names == ("observation[0]", "observation[1]", "observation[2]")
    assert data.actions.tolist() == [[1, 2], [3, 4]]
    ragged = table.set_column(1, "observation", pa.array([[1.0], [2.0], [1.0, 2.0], [3.0]]))
    with pytest.raises(BadData, match="1 and 2"):
        VisitedStates.from_pandas(ragged)


def test_the_next_state_ends_an_episode(rng):
    frame = frame_of(rng, "a").drop(columns=["episode", "t", "done"])
    after = frame[["x", "y"]].shift(-1)
    after.iloc[[3, 7]] = 9.0
    data = VisitedStates.from_pandas(frame.assign(next_x=after.x, next_y=after.y))
    assert data.lengths.tolist() == [5, 5]
    assert data.states[4].tolist() == [9, 9]
    assert len(data.actions) == 8


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f, {"policy_column": "agnt"}, "'agnt'.*agent"),
        (lambda f: f, {"feature_columns": ["z"]}, "'z'.*--feature-columns"),
        (lambda f: f.assign(x=np.where(f.t == 2, np.nan, f.x)), {}, "step 2 .* nan in feature 'x'"),
        (lambda f: f.assign(t=0), {}, "time 0 twice"),
        (lambda f: f.assign(agent=None), {"policy_column": "agent"}, "policy"),

        (lambda f: f.assign(**{"return": f.t}), {}, "return of episode 0"),
        (lambda f: f.assign(x=f.x + 1e9), {}, "'x'.*float32"),
        (lambda f: f[["agent", "episode", "t"]], {}, "'agent'.*--feature-columns"),
        (lambda f: f.iloc[:0], {}, "no rows"),
        (lambda f: f.astype({"x": str}), {"feature_columns": ["x"]}, "'x'"),
        (lambda f: f.assign(action=f.action.where(f.t != 1)), {}, "step 1 of .* no action"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(rng, change, options, words):
    with pytest.raises(pivec.PivecError, match=words):
        VisitedStates.from_pandas(change(frame_of(rng)), **options)


def test_what_is_left_out_is_said(rng):
    frame = frame_of(rng).assign(note="fine", step=lambda f: f.t)
    with pytest.warns(PivecWarning, match="'t', 'note'"):
        data = VisitedStates.from_pandas(frame)
    assert data.feature_names == ("x", "y")


def d4rl(path, rng, n=12, **more):
    path.parent.mkdir(exist_ok=True)
    arrays = {
        "observations": rng.normal(size=(n, 3)).astype(np.float32),
        "actions": rng.normal(size=(n, 2)),
        "rewards": np.arange(n, dtype=np.float32),
        "terminals": np.arange(n) == 4,
        "timeouts": np.arange(n) == 9,
    }
    with h5py.File(path, "w") as file:
        for name, array in (arrays | more).items():
            if array is not None:
                file[name] = array
    return arrays


def test_hdf5_as_d4rl_writes_it(tmp_path, rng):
    arrays = d4rl(tmp_path / "demos/expert.hdf5", rng)
    after = np.concatenate([arrays["observations"][1:], np.ones((1, 3))]).astype(np.float32)
    d4rl(tmp_path / "demos/novice.hdf5", rng, **arrays, next_observations=after)
    data = import_recorded([str(tmp_path / "demos/*.hdf5")], tmp_path / "store")
    assert data.labels == ("expert", "novice")
    assert data.groups == ("demos", "demos")
    assert data["expert"].lengths.tolist() == [5, 5, 2]
    assert data["expert"].returns.tolist() == [10, 35, 21]
    assert data["expert"].terminated.tolist() == [True, False, False]
    assert data["expert"].truncated.tolist() == [False, True, False]
    assert np.array_equal(data["expert"].states, arrays["observations"])
    assert data["novice"].lengths.tolist() == [6, 6, 3]
    assert np.array_equal(data["novice"].actions, arrays["actions"])
    d4rl(tmp_path / "old/old.hdf5", rng, timeouts=None)
    with pytest.warns(PivecWarning, match="timeouts"):
        import_recorded([tmp_path / "old"], tmp_path / "s1")
    cut = import_recorded(
        [tmp_path / "old"], tmp_path / "s2", options=TableOptions(episode_length=5)
    )
    assert cut.lengths.tolist() == [5, 5, 2]


def test_mistakes_in_hdf5_are_named(tmp_path, rng):
    for name, more, words in (
        ("a", {"observations": None}, "observations"),
        ("b", {"rewards": np.zeros(3)}, "rewards .*3.*12"),
        ("c", {"observations": h5py.ExternalLink("other.hdf5", "x")}, "observations|cannot"),
        ("d", {"actions": np.array([b"x"] * 12)}, "actions"),
    ):
        d4rl(tmp_path / f"{name}.h5", rng, **more)
        with pytest.raises(BadData, match=words):
            import_recorded([tmp_path / f"{name}.h5"], tmp_path / "store")
    (tmp_path / "x.hdf5").write_bytes(b"nonsense" * 100)
    with pytest.raises(BadData, match=r"x.hdf5"):
        import_recorded([tmp_path / "x.hdf5"], tmp_path / "store")


def test_arrays_of_states(tmp_path, rng):
    np.save(tmp_path / "a.npy", rng.normal(size=(3, 4, 2)))
    np.save(tmp_path / "b.npy", rng.normal(size=(10, 2)))
    np.save(tmp_path / "starts.npy", [0, 6])
    assert import_recorded([tmp_path / "a.npy"], tmp_path / "s1").lengths.tolist() == [4, 4, 4]
    for number, (options, lengths) in enumerate(
        [({"episode_length": 4}, [4, 4, 2]), ({"episode_starts": tmp_path / "starts.npy"}, [6, 4])]
    ):
        chosen = TableOptions(
            **{key: v if key[-1] == "h" else str(v) for key, v in options.items()}
        )
        data = import_recorded([tmp_path / "b.npy"], tmp_path / f"b{number}", options=chosen)
        assert data.lengths.tolist() == lengths
    with pytest.raises(BadData, match="--episode-length"):
        import_recorded([tmp_path / "b.npy"], tmp_path / "s2")
    np.save(tmp_path / "c.npy", np.zeros(9))
    with pytest.raises(BadData, match=r"\(9,\)"):
        import_recorded([tmp_path / "c.npy"], tmp_path / "s3")


def test_a_second_import_reads_nothing_again(tmp_path, rng, monkeypatch):
    frame = frame_of(rng)
    frame.to_parquet(tmp_path / "log.parquet")
    first = import_recorded([tmp_path / "log.parquet"], tmp_path / "store")
    monkeypatch.setattr("pivec.states.readers.log_rows", None)
    assert_equal(import_recorded([tmp_path / "log.parquet"], tmp_path / "store"), first)


def test_files_that_cannot_go_together(tmp_path, rng):
    frame = frame_of(rng, "a")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.assign(agent="b")[[*frame.columns[:3], "y", "x"]].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(BadData, match=r"y, x.*x, y"):
        import_recorded([tmp_path], tmp_path / "store")
    with pytest.raises(UsageError, match=r"\.py"):
        import_recorded([__file__], tmp_path / "store")
    with pytest.raises(UsageError, match=r"nowhere.csv"):
        import_recorded(["nowhere.csv"], tmp_path / "store")


def test_a_table_that_unpacks_out_of_proportion_is_refused(tmp_path, monkeypatch):
    n = 1_000_000
    zeros = pa.DictionaryArray.from_arrays(np.zeros(n, np.int8), [0.0])
    pq.write_table(pa.table({"x": zeros}), tmp_path / "bomb.parquet")
    monkeypatch.setattr("pivec.files.FREE", 1 << 16)
    with pytest.raises(BadData, match=r"bomb.parquet"):
        import_recorded([tmp_path / "bomb.parquet"], tmp_path / "store")


def test_damaged_tables_are_errors_of_ours(tmp_path, rng):
    frame_of(rng).to_parquet(tmp_path / "log.parquet")
    frame_of(rng).to_feather(tmp_path / "log.feather")
    for name in ("log.parquet", "log.feather"):
        whole = (tmp_path / name).read_bytes()
        for attempt in range(25):
            content = bytearray(whole)
            if attempt % 2:
                content = content[: int(rng.integers(len(content)))]
            else:
                content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
            (tmp_path / name).write_bytes(content)
            with warnings.catch_warnings(), contextlib.suppress(pivec.PivecError):
                warnings.simplefilter("ignore", PivecWarning)
                import_recorded([tmp_path / name], tmp_path / f"store-{name}-{attempt}")


def test_a_typing_error_among_numbers_is_refused(tmp_path):
    rows = ["policy,episode,step,x,y,remark", *(f"a,0,{t},{t},{-t},fine" for t in range(9))]
    rows[5] = "a,0,4,4o,-4,fine"
    (tmp_path / "typo.csv").write_text("\n".join(rows))
    with pytest.raises(BadData) as caught:
        import_recorded([tmp_path / "typo.csv"], tmp_path / "store")
    assert all(fact in str(caught.value) for fact in ("typo.csv", "'x'", "'4o'", "row 5"))
