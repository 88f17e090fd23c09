"""A comparison that grows: the same numbers whenever checkpoints came, and nothing is ever half."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import pivec
from pivec.errors import PivecError, PivecWarning, UsageError
from pivec.report.pages import Pictures
from pivec.workflows.watch import FirstCheckpoints

SHIPPED = Path(str(files("pivec"))) / "demo_policies" / "CartPole-v1"
EARLY, LATER = (0, 20000, 120000, 500000), (7520, 50000, 250000)
SMALL = {"episodes": 2, "components": 3, "every": 0.001, "at_least": 2}
RUNS, OUT = Path("runs"), Path("out")  # in a folder of each test: names do not depend on where


@pytest.fixture(scope="module", autouse=True)
def _no_figures():
    """Figures and pages take most of the time, and are those of `compare`."""
    with pytest.MonkeyPatch.context() as patch:
        pictures = Pictures(b"\x89PNG", b"\x89PNG")
        patch.setattr("pivec.report.pages.Pictures.of", lambda _: pictures)
        patch.setattr("pivec.report.pages.report_html", lambda found, _: str(found.policies.labels))
        yield


def put(*steps, run="a2c-0", name="step_{}"):
    """Let checkpoints of a run stand there, written a while ago."""
    for step in steps:
        path = RUNS / run / f"{name.format(step)}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHIPPED / "a2c-0" / f"step_{step}.safetensors", path)
        os.utime(path, (time.time() - 60.0 - step / 1e6,) * 2)


def watch(env="CartPole-v1", runs=RUNS, out=OUT, **options):
    """Watch until all that is there is in; return the rounds."""
    return list(pivec.watch(env, runs, out, **{"until_idle": 0} | SMALL | options))


def rows(name="map.csv", out=OUT):
    with (out / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def numbers(out=OUT):
    """Return all texts that hold no times."""
    return {name: (out / name).read_text() for name in ("map.csv", "distances.csv", "pairs.csv")}


def notices(stage):
    warned = json.loads((OUT / "run.json").read_text())["warnings"][stage]
    return [row["text"] for row in warned]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A watch that has fitted its space on the first checkpoints of a run, and ended."""
    folder = tmp_path_factory.mktemp("begun")
    with contextlib.chdir(folder):
        put(*EARLY)
        [first] = watch()
    assert first.fitted
    assert len(first.new) == 4
    return folder


@pytest.fixture
def going(begun, tmp_path, monkeypatch):
    """Be in a folder where that goes on; the files of its checkpoints were deleted."""
    shutil.copytree(begun / OUT, tmp_path / OUT)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def grown(begun, tmp_path_factory):
    """What is left when the later checkpoints came all at once."""
    folder = tmp_path_factory.mktemp("grown")
    shutil.copytree(begun / OUT, folder / OUT)
    with contextlib.chdir(folder):
        put(*LATER)
        [second] = watch()
    assert not second.fitted
    assert len(second.new) == 3
    return folder / OUT


def test_the_first_round_is_a_comparison(begun, monkeypatch, tmp_path):
    monkeypatch.chdir(begun)
    compared = pivec.compare("CartPole-v1", RUNS, tmp_path, episodes=2, components=3)
    assert numbers() == numbers(compared.folder)
    assert {p.name for p in OUT.iterdir()} == {p.name for p in tmp_path.iterdir()} | {".watch"}


def test_what_comes_later_is_placed_and_the_rest_stays(begun, grown):
    before, after = pivec.Space.load(begun / OUT), pivec.Space.load(grown)
    assert after.is_placed == [False] * 4 + [True] * 3
    assert after.is_reference == [False] * 7
    assert np.array_equal(after.positions[:4], before.positions)
    assert np.array_equal(after.descriptions.points[:4], before.descriptions.points)
    assert np.isfinite(after.positions).all()
    lines = rows(out=grown)
    assert [line["placed"] for line in lines] == ["false"] * 4 + ["true"] * 3
    assert [int(line["step"]) for line in lines] == [*EARLY, *LATER]
    assert len(rows("pairs.csv", grown)) == 21
    assert len(rows("distances.csv", grown)) == 7
    assert "step_250000" in (grown / "report.html").read_text(encoding="utf-8")
    made = json.loads((grown / "run.json").read_text())["settings"]
    assert made["space"] == "fitted on 4 policies, 3 placed in it"


@pytest.mark.usefixtures("going")
def test_placed_numbers_are_those_of_a_comparison_in_the_earlier_space(grown, tmp_path):
    put(*LATER)
    placed = pivec.compare("CartPole-v1", RUNS, tmp_path / "c", episodes=2, space=OUT)
    space = pivec.Space.load(grown)
    assert np.allclose(placed.space.descriptions.points[:3], space.descriptions.points[4:])
    assert np.allclose(placed.space.positions[:3], space.positions[4:])


@pytest.mark.usefixtures("going")
def test_no_number_depends_on_when_or_in_which_order_checkpoints_came(grown):
    rounds = []
    for step in LATER[::-1]:
        put(step)
        rounds += watch()
        shutil.rmtree(RUNS)
    assert [part.new for part in rounds] == [(f"a2c-0/step_{step}",) for step in LATER[::-1]]
    assert numbers() == numbers(grown)


@pytest.mark.usefixtures("going")
def test_a_space_without_a_map_gets_that_of_those_it_was_fitted_on(grown):
    replace(pivec.Space.load(OUT), positions=None).save(OUT / "space")
    put(*LATER)
    watch()
    assert numbers() == numbers(grown)


def test_the_map_of_a_method_without_vectors_stays_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(*EARLY)
    watch(method="gaussian", components=None)
    before = pivec.Space.load(OUT)
    put(*LATER)
    watch(method="gaussian", components=None)
    after = pivec.Space.load(OUT)
    assert after.descriptions.points is None
    assert np.array_equal(after.positions[:4], before.positions)
    assert np.isfinite(after.positions).all()


@pytest.mark.usefixtures("going")
def test_one_that_is_written_over_is_replaced_and_others_stay_where_they_are():
    put(250000)
    put(7520, run="b", name="best")
    watch()
    before = {line["label"]: line for line in rows()}
    put(50000, run="b", name="best")
    put(2520, name="step_0")  # on which the space was fitted
    [over] = watch()
    assert over.new == ("a2c-0/step_0", "b/best")
    after = {line["label"]: line for line in rows()}
    assert len(after) == len(before) + 1
    assert after["a2c-0/step_0"]["placed"] == "true"
    assert after["a2c-0/step_0 (earlier)"]["reference"] == "true"
    for label in ("a2c-0/step_250000", "a2c-0/step_20000"):
        assert after[label] == before[label] | {"behaviour": after[label]["behaviour"]}


@pytest.mark.usefixtures("going")
def test_names_are_those_of_all_and_copies_are_one():
    put(50000, run="second/a2c-0")
    put(500000, name="best")
    with pytest.warns(PivecWarning, match=r"^1 checkpoint is identical.*runs/a2c-0/best"):
        watch()
    lines = rows()
    assert {line["group"] for line in lines} == {"runs/a2c-0", "second/a2c-0"}
    assert len(lines) == 5
    assert [line["source"] for line in lines if "also runs/a2c-0/best" in line["source"]]
    watch()  # reads the copy again, which was reported
    put(500000, run="second/a2c-0", name="last")
    with pytest.warns(PivecWarning, match=r"^1 checkpoint is identical.*second/a2c-0/last"):
        watch()
    assert [("best" in text, "last" in text) for text in notices("collect")] == [
        (True, True), (True, False)
    ]  # fmt: skip


@pytest.mark.usefixtures("going")
def test_who_cannot_be_read_or_act_is_named_and_the_others_go_on():
    put(50000)
    pendulum = SHIPPED.parent / "Pendulum-v1" / "ppo-0" / "step_0.safetensors"
    shutil.copyfile(pendulum, RUNS / "a2c-0" / "pendulum.safetensors")
    (RUNS / "a2c-0" / "half.safetensors").write_bytes(b"half")
    with pytest.warns(PivecWarning) as warned:
        rounds = watch()
    said = [str(warning.message) for warning in warned]
    assert sum("half.safetensors cannot be read" in text for text in said) == 1
    assert any("pendulum" in text and "tried again" in text for text in said)
    assert [part.new for part in rounds if part.new] == [("a2c-0/step_50000",)]
    assert len(rows()) == 5
    assert any("pendulum" in text for text in notices("collect"))


@pytest.mark.usefixtures("going")
def test_it_fits_anew_at_twice_the_number_if_asked():
    put(*LATER)
    assert [part.fitted for part in watch(runs=".", refit=True)] == [False]  # not what OUT holds
    put(2520)
    watch()
    shutil.rmtree(RUNS)
    [again] = watch(refit=True)
    assert again.fitted
    assert again.new == ()
    assert again.space.n_placed == 0
    assert again.space.collected["environment"] == "CartPole-v1"
    assert {line["placed"] for line in rows()} == {"false"}
    assert len(rows()) == 8


def test_policies_where_the_space_knows_nothing_are_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(0, 2520)
    watch()
    put(50000, 500000)
    with pytest.warns(PivecWarning, match="--refit"):
        [added] = watch()
    assert added.outside
    assert set(added.outside) <= set(added.new)
    said = notices("describe")
    assert any("--refit" in text for text in said)
    watch()
    assert notices("describe") == said


def test_it_is_placed_in_an_earlier_space(begun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for steps in (LATER[:1], LATER[1:]):
        put(*steps)
        watch(space=begun / OUT, components=None)
    assert [line["reference"] for line in rows()] == ["false"] * 3 + ["true"] * 4
    assert [line["placed"] for line in rows()] == ["true"] * 3 + ["false"] * 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"episodes": 3}, "episodes = 2.* 3"),
        ({"components": 4}, "n_components = 3.* 4"),
        ({"method": "gaussian", "components": None}, "method = 'visitation'.*'gaussian'"),
        ({"seed": 1}, "random_state = 0.* 1"),
        ({"env": "Pendulum-v1"}, "Pendulum-v1"),
        ({"refit": True, "space": "elsewhere"}, "refit.*space"),
        ({"every": 0}, "every must be"),
        ({"runs": [np.sin]}, "policies must be paths"),
    ],
)
@pytest.mark.usefixtures("going")
def test_another_command_is_refused(options, words):
    with pytest.raises(UsageError, match=words):
        watch(**options)


def test_mistakes_are_said(begun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PivecError, match="CartPol"):
        pivec.watch("CartPol-v1", RUNS, OUT)  # before anything is waited for
    with pytest.raises(PivecError, match=r"at least 2.*none.*'runs'") as caught:
        watch()
    assert caught.value.exit_code == 1  # the same command may succeed later
    put(0)
    with pytest.raises(PivecError, match=r"at least 2.*found 1:"):
        watch()
    assert not (OUT / "watch.json").exists()
    shutil.copytree(begun / OUT / "space", OUT / "space")
    with pytest.raises(UsageError, match="--space"):
        watch()


def test_one_that_is_written_over_before_there_is_a_space_counts_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(0, 2520)
    arriving = iter([(7520, "step_0"), (20000, "step_9")])

    def sleep(_):
        step, name = next(arriving)
        put(step, name=name)

    monkeypatch.setattr(time, "sleep", sleep)
    first = next(pivec.watch("CartPole-v1", RUNS, OUT, **SMALL | {"at_least": 3}))
    assert first.new == ("a2c-0/step_0", "a2c-0/step_9", "a2c-0/step_2520")


def test_fewer_than_asked_for_are_compared_when_no_more_arrive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(0, 120000, 500000)
    put(500000, name="best")
    with pytest.warns(PivecWarning) as warned:
        [only] = watch(at_least=10)
    assert only.fitted
    assert len(rows()) == len(only.new) == 3
    said = [str(warning.message) for warning in warned]
    [few] = [text for text in said if "--at-least asks for 10" in text]
    assert few in notices("describe")
    [copies] = [text for text in said if text.startswith("1 checkpoint is identical")]
    assert copies in notices("collect")
    assert not (OUT / "watch.json").exists()
    put(7520, 20000, 250000)
    [again] = watch(at_least=6, refit=True)
    assert (again.fitted, len(rows())) == (True, 6)
    assert few not in notices("describe")


def test_progress_is_shown_from_the_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arriving = iter([(0, "a"), (0, "b"), (500000, "c"), (120000, "d")])
    found = []

    def sleep(_):
        found.append(FirstCheckpoints.load(OUT))
        step, name = next(arriving)
        put(step, name=name)

    monkeypatch.setattr(time, "sleep", sleep)
    rounds = pivec.watch("CartPole-v1", RUNS, OUT, **SMALL | {"at_least": 3}, progress=True)
    with pytest.warns(PivecWarning, match="identical"):
        assert len(next(rounds).new) == 3
    assert found == [FirstCheckpoints(n, 3) for n in (0, 1, 1, 2)]
    assert FirstCheckpoints.load(OUT) is None
    lines = capsys.readouterr().err.splitlines()
    assert "--at-least" in lines[0]
    counted = [line.split(" checkpoints")[0] for line in lines if " of 3 checkpoints" in line]
    assert counted == ["0 of 3", "1 of 3", "1 of 3", "2 of 3"]
    assert "'runs'" in lines[1]
    assert "1 more identical" in lines[3]
    rounds.close()


def test_a_status_that_is_damaged_is_none(tmp_path):
    for content in ("", "[]", "{}", '{"found": "x", "needed": 3}', '{"found": null, "needed": 3}'):
        (tmp_path / "watch.json").write_text(content)
        assert FirstCheckpoints.load(tmp_path) is None
    FirstCheckpoints(3, 10).save(tmp_path)
    assert FirstCheckpoints.load(tmp_path) == FirstCheckpoints(3, 10)
    assert FirstCheckpoints.load(tmp_path).words == "3 of 10 checkpoints"


def test_nobody_who_can_act_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(0, 2520)
    with (
        pytest.warns(PivecWarning, match="trained in"),
        pytest.raises(PivecError, match="4 values"),
    ):
        watch("Pendulum-v1")


@pytest.mark.usefixtures("going")
def test_files_that_take_long_come_at_times_and_in_the_end(monkeypatch):
    """While they are not due the space grows alone; Ctrl-C finds them whole."""
    monkeypatch.setattr("pivec.workflows.watch._PAUSE", 1e9)
    steps = iter(LATER)

    def sleep(_):
        if (step := next(steps, None)) is None:
            raise KeyboardInterrupt
        put(step)

    monkeypatch.setattr(time, "sleep", sleep)
    rounds = pivec.watch("CartPole-v1", RUNS, OUT, **SMALL)
    for written in (4, 4, 4):
        space = next(rounds).space
        assert np.array_equal(pivec.Space.load(OUT).positions, space.positions)
        assert len(rows()) == written
    assert len(space.descriptions) == 7
    with pytest.raises(KeyboardInterrupt):
        next(rounds)
    assert len(rows()) == 7


def test_a_folder_that_is_removed_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(*EARLY)
    rounds = pivec.watch("CartPole-v1", RUNS, OUT, **SMALL)
    assert next(rounds).fitted
    shutil.rmtree(OUT)
    put(*LATER)
    with pytest.raises(PivecError, match=str(OUT)):
        next(rounds)
    assert not OUT.exists()
    assert watch()[0].fitted  # all of it again


@pytest.mark.usefixtures("going")
def test_ctrl_c_while_a_module_is_imported(monkeypatch):
    """Such a module fails when it is needed for the last files; it is still Ctrl-C that counts."""
    put(50000)
    write = Mock(side_effect=[KeyboardInterrupt, AttributeError])
    monkeypatch.setattr("pivec.workflows.watch.write", write)
    with pytest.raises(KeyboardInterrupt):
        watch()


def test_a_kill_before_the_first_space_is_saved(begun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(*EARLY)
    (OUT / "space").mkdir(parents=True)
    watch()
    assert numbers() == numbers(begun / OUT)


@pytest.mark.usefixtures("going")
def test_a_second_watch_of_a_folder_is_refused():
    put(50000)
    rounds = pivec.watch("CartPole-v1", RUNS, OUT, **SMALL)
    next(rounds)
    with pytest.raises(PivecError, match="another `pivec watch`"):
        watch()
    rounds.close()


@pytest.mark.usefixtures("going")
def test_who_is_in_the_store_and_not_in_the_space_is_described(grown, monkeypatch):
    put(*LATER)
    with monkeypatch.context() as patch:
        patch.setattr(pivec.Space, "save", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            watch()
    shutil.rmtree(RUNS)
    watch()
    assert numbers() == numbers(grown)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["collect", "claim", "space", "measure_space", "positions_of"])
@pytest.mark.usefixtures("going")
def test_a_killed_watch_goes_on(grown, moment):
    """The process ends in the middle of a round; the files of the checkpoints may be gone then."""
    put(*LATER)
    killed = subprocess.run([sys.executable, "-c", KILLED, moment], check=False)
    assert killed.returncode == 9
    assert len(pivec.Space.load(OUT).descriptions) in (4, 7)
    if moment != "collect":
        shutil.rmtree(RUNS)
    watch()
    assert numbers() == numbers(grown)


KILLED = f"""
import os, sys, pivec
from pivec.workflows import comparison
from pivec.states import Store
moment = sys.argv[1]
end = lambda *_, **__: os._exit(9)
if moment == "collect":
    add, seen = Store.add, []
    def second(self, record):
        seen.append(record) if not seen else end()
        add(self, record)
    Store.add = second
elif moment == "claim":
    Store.reorder = end
elif moment == "space":
    rename = os.replace
    os.replace = lambda a, b: end() if str(b).endswith("space.npz") else rename(a, b)
else:
    setattr(comparison, moment, end)
list(pivec.watch("CartPole-v1", "runs", "out", until_idle=0, **{SMALL}))
"""


@pytest.mark.usefixtures("going")
def test_the_command_says_a_line_a_round(run):
    put(50000)
    options = ("--episodes", 2, "--components", 3, "--until-idle", 0, "--every", 0.01)
    said = run("watch", "CartPole-v1", "runs", "--out", "out", *options)
    assert "1 new, 5 policies, " in said.out  # after what Ray may say
    assert said.out.endswith(" s\n")
    said = run("watch", "CartPole-v1", "nowhere", "--out", "o", "--until-idle", 0, code=1)
    assert "0 of 10 checkpoints, none in 'nowhere'" in said.err
