"""Logs with the names that people choose: what is a policy, an episode, a feature, an outcome."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import pivec
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.options import TableOptions
from pivec.states import VisitedStates, find_recorded, import_recorded, is_recorded
from pivec.states.export import export, write_parquet

OBS = ["obs_0", "obs_1", "obs_2"]


@pytest.fixture
def log(rng):
    """Two algorithms with two runs each; episodes are numbered from 0 in every run."""
    parts = []
    for algo in ("ppo", "sac"):
        for run in (1, 2):
            for episode in range(3):
                n = 3 + episode + run
                part = pd.DataFrame(rng.normal(size=(n, 3)), columns=OBS)
                part.insert(0, "algo", algo)
                part.insert(1, "run", run)
                part.insert(2, "episode", episode)
                part.insert(3, "step", range(n))
                parts.append(part.assign(reward=rng.normal(size=n), done=np.arange(n) == n - 1,
                                         action=rng.integers(0, 3, n)))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def truth(log, keys=("algo", "run"), episode="episode", reward="reward", features=OBS):
    """Label, states and return of each episode, from pandas alone."""
    found = []
    for values, rows in log.groupby([*keys, episode], sort=False):
        label = "/".join(map(str, values[:-1]))
        found.append((label, rows[features].to_numpy(np.float32), rows[reward].sum()))
    return found


def assert_true(data, expected):
    labels = np.repeat(data.labels, np.diff(data.policy_starts)).tolist()
    assert labels == [label for label, _, _ in expected]
    for mine, (_, states, _) in zip(data.episodes(), expected, strict=True):
        np.testing.assert_array_equal(mine, states)
    np.testing.assert_allclose(data.returns, [total for _, _, total in expected])


def write(log, path):
    if path.suffix == ".csv":
        log.to_csv(path)  # with pandas' numbers of rows
    elif path.suffix == ".parquet":
        log.to_parquet(path, row_group_size=7)
    else:
        log.to_json(path, orient="records", lines=True)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".ndjson"])
def test_algo_and_run_are_the_policies_of_a_file(log, tmp_path, suffix):
    path = tmp_path / f"log{suffix}"
    write(log.assign(success=log.groupby(["algo", "run"]).episode.transform("max") > 5), path)
    data = import_recorded([path], tmp_path / "store")
    assert_true(data, truth(log))
    assert data.groups == data.labels
    assert data.feature_names == tuple(OBS)
    assert data.terminated.all()
    assert data.has_actions
    assert list(data.outcomes) == ["success"]
    assert not data.outcomes["success"].any()


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        ({"algo": "agent", "step": "env_step", "episode": "ep"}, ("agent", "run")),
        ({"episode": "trial", "step": "timestep", "run": "exp"}, ("algo", "exp")),
        ({"run": "seed", "step": "t"}, ("algo", "seed")),
        ({"algo": "variant", "run": "run_id"}, ("variant", "run_id")),
        ({"algo": "Policy Name", "run": "worker_id", "episode": "Episode"},
         ("Policy Name", "worker_id")),
        ({"run": "checkpoint"}, ("algo", "checkpoint")),
        ({"algo": "variant", "run": "env_id"}, ("variant", "env_id")),
    ],
)  # fmt: skip
def test_policies_are_told_by_the_columns_that_make_episodes_unique(log, names, keys):
    renamed = log.rename(columns=names)
    shuffled = renamed.sample(frac=1.0, random_state=0)
    for frame in (renamed, renamed[renamed.columns[::-1]]):
        data = VisitedStates.from_pandas(frame, feature_columns=OBS)
        episode = names.get("episode", "episode")
        assert_true(data, truth(renamed, keys, episode))
    mixed = VisitedStates.from_pandas(shuffled, feature_columns=OBS)
    assert sorted(mixed.labels) == sorted(data.labels)
    assert mixed.n_episodes == data.n_episodes


def test_short_episodes_do_not_change_who_is_the_policy():
    frame = pd.DataFrame({"agent": list("aaab"), "ep": [0, 0, 1, 0], "t": [0, 1, 0, 0],
                          "x": [0.0, 0.5, 0.25, 1.0]})  # fmt: skip
    for rows, labels in ((frame, ("a", "b")), (frame[:3], ("a",)), (frame[2:3], ("a",))):
        assert VisitedStates.from_pandas(rows).labels == labels


def test_training_steps_of_one_policy_are_policies_of_its_run(log):
    data = VisitedStates.from_pandas(log.assign(global_step=log.run * 1000).drop(columns="run"))
    assert data.labels == ("ppo/1000", "ppo/2000", "sac/1000", "sac/2000")
    assert data.groups == ("ppo", "ppo", "sac", "sac")
    assert data.steps == (1000, 2000, 1000, 2000)


def test_a_name_alone_stays_the_label(log):
    frame = log.assign(policy=log.algo + log.run.astype(str), group=log.algo).drop(
        columns=["algo", "run"]
    )
    data = VisitedStates.from_pandas(frame)
    assert data.labels == ("ppo1", "ppo2", "sac1", "sac2")
    assert data.groups == ("ppo", "ppo", "sac", "sac")


def test_steps_that_count_on_are_times_and_not_checkpoints(log):
    frame = log.rename(columns={"step": "global_step"})
    frame["global_step"] = range(len(frame))
    assert_true(VisitedStates.from_pandas(frame), truth(log))
    without = VisitedStates.from_pandas(frame.drop(columns="episode"))  # ``done`` ends episodes
    assert_true(without, truth(log))
    both = frame.assign(step=log.step, run=range(len(frame)), ep=log.run * 10 + log.episode)
    with pytest.warns(PivecWarning, match="'run'.*'global_step'"):
        data = VisitedStates.from_pandas(both.drop(columns="episode"))
    assert data.labels == ("ppo", "sac")
    assert data.n_episodes == 12


def test_what_numbers_rows_episodes_and_policies_is_no_feature(log, rng):
    owner = log.groupby(["algo", "run"]).ngroup()
    episode = log.groupby(["algo", "run", "episode"]).ngroup()
    frame = log.rename(columns=dict(zip(OBS, "xyz", strict=True))).assign(
        wall_time=np.arange(len(log)) * 0.1,
        iteration=log.step + 5,
        frame_no=log.step + 7,
        learning_rate=owner * 1e-3,
        rolled=episode,
        size=log.groupby(["algo", "run", "episode"]).step.transform("size"),
        env_id=3,
        cum_reward=log.reward.cumsum(),
        goal=episode * 0.5,
        note="fine",
    )
    with pytest.warns(PivecWarning, match="ignored"):
        data = VisitedStates.from_pandas(frame)
    assert data.feature_names == ("x", "y", "z", "goal")
    chosen = VisitedStates.from_pandas(frame, feature_columns=["frame_no", "goal"])
    assert chosen.feature_names == ("frame_no", "goal")
    with pytest.warns(PivecWarning, match="ignored"):
        data = VisitedStates.from_pandas(frame, ignore_columns=["goal", "y"])
    assert data.feature_names == ("x", "z")


def test_a_number_of_the_run_in_files_of_their_own_is_reported(log, tmp_path):
    for number, (algo, rows) in enumerate(log.groupby("algo")):
        frame = rows[rows.run == 1].drop(columns=["algo", "run"])
        frame = frame.rename(columns=dict(zip(OBS, "xyz", strict=True)))
        frame.assign(rate=number * 0.1).to_csv(tmp_path / f"{algo}.csv", index=False)
    with pytest.warns(PivecWarning, match=r"'rate'.*--ignore-columns"):
        pivec.compare(str(tmp_path / "*.csv"), out=tmp_path / "out", components=2)
    options = TableOptions(ignore_columns=["rate"])
    assert import_recorded([tmp_path / "ppo.csv"], None, options=options).feature_names == (
        "x",
        "y",
        "z",
    )


def test_states_that_are_called_so_leave_out_other_numbers(log):
    for names in (
        OBS,
        ["observation.x", "observation.y", "observation.z"],
        ["state_x", "state_y", "state_z"],
    ):
        frame = log.rename(columns=dict(zip(OBS, names, strict=True))).assign(loss=log.reward)
        with pytest.warns(PivecWarning, match="'loss'"):
            assert VisitedStates.from_pandas(frame).feature_names == tuple(names)


def test_outcomes_are_the_values_of_episodes(log):
    group = log.groupby(["algo", "run", "episode"])
    last = group.step.transform("max") == log.step
    frame = log.rename(columns=dict(zip(OBS, "xyz", strict=True))).assign(
        is_success=(log.episode > 0) & last,  # a flag of the last step
        score=np.where(last, log.episode * 2.0, np.nan),
        task=np.where(log.episode == 1, "push", "pick"),
        map=np.where(log.episode == 1, "A", "B"),
    )
    data = VisitedStates.from_pandas(frame)
    assert data.feature_names == ("x", "y", "z")
    expected = np.tile(np.arange(3), 4)
    assert data.outcomes["is_success"].tolist() == (expected > 0).tolist()
    assert data.outcomes["score"].tolist() == (expected * 2).tolist()
    assert data.outcomes["task"].tolist() == np.where(expected == 1, "push", "pick").tolist()
    assert data.outcomes["map"].tolist() == np.where(expected == 1, "A", "B").tolist()
    running = frame.assign(score=log.reward)  # a state of the game
    assert VisitedStates.from_pandas(running).feature_names == ("x", "y", "z", "score")
    chosen = VisitedStates.from_pandas(running, outcome_columns=["score"], ignore_columns=["map"])
    assert set(chosen.outcomes) == {"score", "task", "is_success"}
    assert chosen.outcomes["score"].tolist() == group.reward.last().tolist()
    with pytest.raises(UsageError, match=r"'scores'.*--outcome-columns.*score"):
        VisitedStates.from_pandas(frame, outcome_columns=["scores"])


def test_outcomes_come_back_from_files(tmp_path, rng):
    walks = [[rng.normal(size=(n, 2)) for n in lengths] for lengths in ([3, 4], [5])]
    outcomes = {"success": [[1.0, None], [0.0]], "task": [["pick", "push"], [None]]}
    data = VisitedStates.from_arrays(walks, ["a", "b"], outcomes=outcomes)
    stored = import_recorded([data], tmp_path / "store")
    write_parquet(data, tmp_path / "x.parquet")
    export(tmp_path / "store", f"npz:{tmp_path / 'npz'}")
    for source in (tmp_path / "x.parquet", f"npz:{tmp_path / 'npz'}"):
        back = import_recorded([source], None)
        assert back.feature_names == data.feature_names
        for name, values in stored.outcomes.items():
            np.testing.assert_array_equal(back.outcomes[name], values)


def test_json_lines_may_be_nested(log, tmp_path):
    with open(tmp_path / "log.jsonl", "w") as file:
        for row in log.to_dict("records"):
            known = {key: row[key] for key in ("algo", "run", "episode", "step", "reward")}
            obs = {"x": row["obs_0"], "yz": [row["obs_1"], row["obs_2"]]}
            info = {"is_success": row["done"], "loss": 1.0}
            file.write(json.dumps({**known, "obs": obs, "info": info}) + "\n")
    with pytest.warns(PivecWarning, match=r"'info\.loss'"):
        data = import_recorded([tmp_path / "log.jsonl"], None)
    assert data.feature_names == ("obs.x", "obs.yz[0]", "obs.yz[1]")
    assert_true(data, truth(log))
    assert data.outcomes["is_success"].all()
    (tmp_path / "bad.jsonl").write_text('{"x": 1}\n[1]\n')
    with pytest.raises(BadData, match=r"bad\.jsonl"):
        import_recorded([tmp_path / "bad.jsonl"], None)


# ---- arrays ----


@pytest.fixture
def one(log):
    return log[(log.algo == "ppo") & (log.run == 1)]


def arrays_of(one):
    return {
        "obs": one[OBS].to_numpy(np.float32),
        "actions": one.action.to_numpy(),
        "rewards": one.reward.to_numpy(),
        "dones": one.done.to_numpy(),
    }


def one_truth(one):
    return [("demo", states, total) for _, states, total in truth(one)]


def test_arrays_by_natural_names(one, tmp_path):
    arrays = arrays_of(one)
    starts = one.step.to_numpy() == 0
    lengths = one.groupby("episode").size().to_numpy()
    rest = {key: arrays[key] for key in ("actions", "rewards")}
    layouts = [
        arrays,
        {"observations": arrays["obs"], "terminals": arrays["dones"], **rest},
        {"obs": arrays["obs"], "episode_starts": starts, **rest},
        {"obs": arrays["obs"], "episode_lengths": lengths, **rest},
        {"obs": arrays["obs"], "episode_ids": one.episode.to_numpy(), **rest},
        {"obs": arrays["obs"], "timesteps": one.step.to_numpy(), **rest},
        {**arrays, "dones": arrays["dones"][:, None], "rewards": arrays["rewards"][:, None]},
    ]
    for number, layout in enumerate(layouts):
        folder = tmp_path / str(number) / "demo"
        folder.mkdir(parents=True)
        np.savez(folder.parent / "demo.npz", **layout)
        for name, array in layout.items():
            np.save(folder / f"{name}.npy", array)
        for source in (folder, folder.with_suffix(".npz")):
            data = import_recorded([source], None)
            assert_true(data, one_truth(one))
            last = np.cumsum(lengths) - 1
            assert data.actions.tolist() == np.delete(arrays["actions"], last).tolist()
            assert data.terminated.all() == ("dones" in layout or "terminals" in layout)


def test_other_arrays_are_outcomes_or_ignored(one, tmp_path):
    infos = np.array([{"a": 1}] * len(one), dtype=object)
    more = {"success": [1.0, 0.0, 1.0], "goal": ["a", "b", "c"], "infos": infos, "map": np.eye(5)}
    np.savez(tmp_path / "demo.npz", **arrays_of(one), **more)
    with pytest.warns(PivecWarning, match=r"demo\.npz.*'infos', 'map'$"):
        data = import_recorded([tmp_path / "demo.npz"], None)
    assert data.outcomes["success"].tolist() == [1, 0, 1]
    assert data.outcomes["goal"].tolist() == ["a", "b", "c"]
    assert not (tmp_path / "escaped").exists()


def test_padded_arrays_end_where_flags_say(rng, tmp_path):
    states, rewards = rng.normal(size=(3, 6, 2)).astype(np.float32), rng.normal(size=(3, 6))
    ends = [2, 5, 3]
    dones = np.arange(6) == np.array(ends)[:, None]
    np.savez(tmp_path / "a.npz", obs=states, dones=dones, rewards=rewards)
    stays = np.arange(6) >= np.array(ends)[:, None]
    np.savez(tmp_path / "b.npz", obs=states, dones=stays, rewards=rewards)
    after = np.concatenate([states, states[:, :1]], axis=1)  # the terminal state has no reward
    np.savez(tmp_path / "c.npz", obs=after, dones=dones, rewards=rewards)
    data = import_recorded([tmp_path], None)
    total = [rewards[i, : end + 1].sum() for i, end in enumerate(ends)]
    for label, more in (("a", 1), ("b", 1), ("c", 2)):
        assert data[label].lengths.tolist() == [end + more for end in ends]
        np.testing.assert_allclose(data[label].returns, total)
        assert data[label].terminated.all()
    first = np.arange(6) == np.zeros((3, 1))
    np.savez(tmp_path / "e.npz", obs=states, is_first=first, dones=dones, rewards=rewards)
    np.savez(tmp_path / "f.npz", obs=states, dones=np.ones(3, bool), rewards=rewards)
    data = import_recorded([tmp_path / "e.npz", tmp_path / "f.npz"], None)
    assert data["e"].lengths.tolist() == [end + 1 for end in ends]
    assert data["f"].lengths.tolist() == [6] * 3
    assert data["f"].terminated.all()
    np.testing.assert_allclose(data["f"].returns, rewards.sum(axis=1))
    many = np.zeros((50, 4), bool)
    many[::9, 1] = True
    np.savez(tmp_path / "d.npz", obs=np.zeros((50, 4, 2)), dones=many)  # (steps, environments)
    with pytest.raises(BadData, match=r"d\.npz.*dones.*\(episodes, steps\)"):
        import_recorded([tmp_path / "d.npz"], None)


def test_rollout_buffers_are_one_environment_after_another(rng, tmp_path):
    for environments in (1, 3):
        states = rng.normal(size=(8, environments, 2)).astype(np.float32)
        starts = rng.random((8, environments)) < 0.3
        rewards = rng.normal(size=(8, environments))
        arrays = {"observations": states, "episode_starts": starts, "rewards": rewards}
        np.savez(tmp_path / "buffer.npz", **arrays)
        data = import_recorded([tmp_path / "buffer.npz"], None)
        expected = []
        for lane in range(environments):
            cuts = [0, *[row for row in range(1, 8) if starts[row, lane]], 8]
            expected += [(lane, slice(*pair)) for pair in itertools.pairwise(cuts)]
        assert data.n_episodes == len(expected)
        for mine, (lane, rows) in zip(data.episodes(), expected, strict=True):
            np.testing.assert_array_equal(mine, states[rows, lane])
        totals = [rewards[rows, lane].sum() for lane, rows in expected]
        np.testing.assert_allclose(data.returns, totals)
        if environments == 1:  # after the training, which flattens some
            arrays["observations"] = states[:, 0]
            arrays["episode_starts"] = starts.astype(np.float32)
            np.savez(tmp_path / "flat.npz", **arrays)
            flat = import_recorded([tmp_path / "flat.npz"], None)
            assert flat.lengths.tolist() == data.lengths.tolist()
            np.testing.assert_allclose(flat.returns, totals)
    ends = np.arange(8)[:, None] % 4 == 3
    np.savez(tmp_path / "one.npz", obs=states[:, :1], dones=ends)
    assert import_recorded([tmp_path / "one.npz"], None).lengths.tolist() == [4, 4]


def test_done_is_not_the_end_of_an_episode_that_was_truncated(one, tmp_path):
    cut = one.done & (one.episode == 1)
    np.savez(tmp_path / "demo.npz", **arrays_of(one), truncations=cut)
    by_file = import_recorded([tmp_path / "demo.npz"], None)
    for data in (by_file, VisitedStates.from_pandas(one.assign(truncated=cut))):
        assert data.terminated.tolist() == [True, False, True]
        assert data.truncated.tolist() == [False, True, False]


def test_a_folder_of_episodes_is_one_policy(log, tmp_path):
    for values, rows in log.groupby(["algo", "run", "episode"]):
        path = tmp_path / "logs/{}-{}/episode_{}.npy".format(*values)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, rows[OBS].to_numpy(np.float32))
    data = import_recorded([tmp_path / "logs"], None)
    assert data.labels == ("ppo-1", "ppo-2", "sac-1", "sac-2")
    for mine, (_, states, _) in zip(data.episodes(), truth(log), strict=True):
        np.testing.assert_array_equal(mine, states)
    assert is_recorded(tmp_path / "logs")
    assert not is_recorded(tmp_path / "logs", folders=False)
    np.save(tmp_path / "logs/ppo-1/episode_1.npy", np.zeros((4, 5)))
    with pytest.raises(BadData, match=r"ppo-1.*episode_1\.npy.*\(4, 5\)"):
        import_recorded([tmp_path / "logs"], None)
    options = TableOptions(episode_length=2)  # of files with all episodes
    assert len(find_recorded(tmp_path / "logs/ppo-1", options)) == 3


def test_arrays_that_do_not_fit_are_named(one, tmp_path):
    arrays = arrays_of(one)
    for change, words in (
        ({"rewards": [1.0, 2.0, 3.0]}, r"rewards.*\(3,\).*state"),
        ({"rewards": np.zeros(2)}, r"rewards.*\(2,\)"),
        ({"returns": [1.0]}, "returns.*3 episodes"),
        ({"episode": np.zeros(2)}, "episode"),
    ):
        np.savez(tmp_path / "x.npz", **(arrays | change))
        with pytest.raises(BadData, match=rf"x\.npz.*{words}"):
            import_recorded([tmp_path / "x.npz"], None)


# ---- commands ----


def test_import_can_only_print(run, log, tmp_path):
    log.to_csv("log.csv", index=False)
    before = sorted(tmp_path.rglob("*"))
    done = run("import", "log.csv", "--dry-run")
    assert sorted(tmp_path.rglob("*")) == before
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.startswith("  ")}
    assert "algo + run" in lines["policy"]
    assert all(name in lines["features"] for name in OBS)
    assert "4 policies, 12 episodes" in done.out
    assert "--out" in run("import", "log.csv", code=2).err
    assert not (tmp_path / "pivec-out").exists()


def test_compare_prints_how_a_table_is_read(run, log, tmp_path):
    log.to_csv("log.csv", index=False)
    done = run("compare", "log.csv", "--components", 4)
    assert "algo + run" in done.out
    assert "algo + run" not in run("compare", "log.csv", "--components", 4, "-q").out
    result = pivec.load_comparison(tmp_path / "pivec-out")
    assert set(result.labels) == {"ppo/1", "ppo/2", "sac/1", "sac/2"}
