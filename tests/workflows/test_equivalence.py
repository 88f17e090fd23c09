"""`same` and `plan`: verdicts, what may stand on either side, the gate, and bad input."""

from __future__ import annotations

import json
import re
import shutil
from xml.etree.ElementTree import parse

import numpy as np
import pandas as pd
import pytest

import pivec
from pivec.errors import PivecWarning, UsageError
from pivec.report.console import plan_json, reasons
from pivec.states import RecordedStates, VisitedStates, find_recorded, joined
from pivec.statistics import chi2_bound, with_upper_bounds
from pivec.workflows import write_store

FEW = {"method": "visitation", "components": 4}
BRIEF = ("--method", "visitation", "--components", 4)
SMALL = (*BRIEF, "--episodes", 12)


def states(place=0.0, *, episodes=40, seed=0, label="a", spread=0.3, length=30):
    """Episodes of normal states around a place that differs a little between episodes."""
    rng = np.random.default_rng([seed, *label.encode()])
    middles = rng.normal(place, spread, (episodes, 1, 2))
    return VisitedStates.from_arrays(
        [list(middles + rng.normal(size=(episodes, length, 2)))], labels=[label]
    )


def still(observations):
    return np.zeros(len(observations), int)


# ---- the verdict ----


def test_thinning_is_no_difference():
    a, whole = states(length=60), states(length=60, label="b")
    found = RecordedStates(find_recorded(whole), max_states_per_policy=500).run()
    assert found.records[0].every == 8
    some = {view.name: view for view in pivec.same(a, found, permutations=99, **FEW).views}
    assert some["length"].high < 1e-9
    assert all(view.beyond == 0.0 for view in some.values())
    # Episodes of which fewer states are kept look different one by one, but not to `same`.
    assert some["kinds"].low < some["kinds"].margin


def test_verdicts_and_what_they_say():
    a, b, far = states(), states(label="b"), states(0.7, label="far")
    alike = pivec.same(a, b, margin=0.05, **FEW)
    assert alike.verdict == "same"
    assert 0 <= alike.low < alike.high < 0.05
    assert alike.episodes_needed is alike.more_episodes is None
    apart = pivec.same(a, far, **FEW)
    assert (apart.verdict, apart.labels, apart.p_value) == ("different", ("a", "far"), 0.001)
    assert apart.low < apart.distance < apart.high
    assert apart.overlap < alike.overlap
    # A difference that is certain and smaller than the margin is none that matters.
    assert pivec.same(a, far, margin=2 * apart.high, **FEW).verdict == "same"


def test_too_few_episodes_and_how_many_it_takes():
    few = [states(episodes=6, label=label) for label in "ab"]
    unsure = pivec.same(*few, **FEW)
    assert unsure.verdict == "unclear"
    assert unsure.more_episodes == unsure.episodes_needed - 6 > 0
    n = min(2 * unsure.episodes_needed, 1000)  # a pilot of six episodes may be wrong by half
    assert pivec.same(*(states(episodes=n, label=label) for label in "ab"), **FEW).verdict == "same"


def test_luck_does_not_make_a_wide_interval_do():
    """A distance that the noise taken off leaves below 0 has the bound of one that is 0."""
    drawn = [(states(episodes=6, seed=s), states(episodes=6, seed=s, label="b")) for s in range(6)]
    a, b = min(drawn, key=lambda pair: pivec.same(*pair, **FEW).distance)
    answer = pivec.same(a, b, **FEW)
    method = pivec.characterization("visitation", n_components=4, random_state=0)
    sure = method.fit(joined([a, b])).intervals(a, b, level=0.9)
    assert answer.distance == sure.distance[0, 0] < 0
    slope = (sure.first + sure.second) / (sure.distance + sure.noise)
    slope = np.minimum(slope, 4 * np.sqrt(sure.second / 2))
    assert answer.high == pytest.approx(chi2_bound(0.0, slope.item(), sure.second.item(), 0.95))
    verdicts = {
        pivec.same(a, b, margin=answer.high * f, views=["moves"], **FEW).verdict
        for f in (0.99, 1.01)
    }
    assert verdicts == {"unclear", "same"}


def test_the_level_is_that_of_both_bounds():
    a, b = states(), states(0.2, label="b")
    wide, narrow = (pivec.same(a, b, level=level, **FEW) for level in (0.99, 0.9))
    assert wide.low < narrow.low < narrow.high < wide.high
    method = pivec.characterization("visitation", n_components=4, random_state=0)
    sure = with_upper_bounds(method.fit(joined([a, b])).intervals(a, b, level=0.8))
    assert (narrow.low, narrow.high) == (sure.low[0, 0], sure.high[0, 0])


def test_other_characterizations_need_a_margin_of_their_own():
    a, b = states(), states(0.7, label="b")
    with pytest.raises(UsageError, match="margin is needed with gaussian"):
        pivec.same(a, b, method="gaussian")
    assert pivec.same(a, b, method="gaussian", margin=0.01).verdict == "different"
    rewarded = [
        VisitedStates.from_arrays(
            [[np.zeros((2, 1))] * 30], returns=[np.random.default_rng(s).normal(size=30)],
            labels=[str(s)],
        )
        for s in (0, 1)
    ]  # fmt: skip
    answer = pivec.same(*rewarded, method="returns", margin=0.1)
    assert answer.verdict == "unclear"
    assert answer.overlap is None
    # Of means of 30 normal numbers: 2 · 1/M is the variance of their difference.
    assert 100 < answer.episodes_needed < 5000


# ---- bad input ----


def test_one_episode_has_no_interval():
    with pytest.warns(PivecWarning, match="a single episode"):
        answer = pivec.same(states(episodes=1), states(episodes=1, label="b"), **FEW)
    assert answer.verdict == "unclear"
    assert answer.episodes_needed is None
    assert answer.as_json()["high"] is None
    json.dumps(answer.as_json(), allow_nan=False)
    assert "no interval" in reasons(answer)[1]
    assert "nan" not in " ".join(reasons(answer))


def test_features_may_have_any_names():
    """No view is lost where features share a name, or have that of another view."""
    sides = states(spread=0.1), states(1.0, label="far", spread=0.1)

    def named(*names):
        return (VisitedStates(side.records, names) for side in sides)

    for names in (("x", "x"), ("moves", "length"), ("features", "features")):
        answer = pivec.same(*named(*names), permutations=99, **FEW)
        assert len(answer.views) == len({view.name for view in answer.views}) == 9
        some = pivec.same(*named(*names), views="features", permutations=99, **FEW)
        assert sum(view.is_beyond for view in some.views) == 2


def test_the_listed_views_are_those_that_are_counted():
    """Lines after "not below the margin in N views" are of such views, with finite bounds."""
    few = pivec.same(states(episodes=2), states(episodes=2, label="b"), permutations=19, **FEW)
    views = [view for view in few.views if not view.is_within]
    heading, *lines = reasons(few)
    assert f"{len(views)} of 9" in heading
    listed = [line for line in lines if ", margin" in line]
    assert len(listed) == min(len(views), 6)
    assert {line.split(":")[0] for line in listed} <= {view.name for view in views}
    assert max(view.high for view in views) > 1.0
    assert all(float(re.findall(r"to (.*?)\)", line)[0]) <= 1.0 for line in listed)
    # Who cannot be distinguished does not spend time in different regions.
    assert few.low == 0.0
    assert "different regions" not in " ".join(lines)
    far = pivec.same(states(), states(2.0, label="far"), **FEW)
    assert "different regions" in reasons(far)[-1]


@pytest.mark.parametrize(("place", "verdict"), [(0.0, "same"), (1.0, "different")])
def test_where_nothing_varies_any_difference_is_one(place, verdict):
    path = np.arange(20.0).reshape(10, 2)
    a, b = (
        VisitedStates.from_arrays([[path + shift] * 3], labels=[label])
        for shift, label in ((0, "a"), (20 * place, "b"))
    )
    with pytest.warns(PivecWarning, match="all alike"):
        answer = pivec.same(a, b, **FEW)
    assert answer.verdict == verdict
    assert answer.low == pytest.approx(answer.high, abs=1e-6)


def test_episodes_on_both_sides_are_told():
    a = states()
    half = VisitedStates([a.records[0].only(np.arange(20))], a.feature_names)
    with pytest.warns(PivecWarning, match="20 episodes"):
        pivec.same(a, half, **FEW)
    with pytest.warns(PivecWarning, match="identical episodes"):
        pivec.same(a, a, **FEW)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"margin": 0.0}, "margin must be"),
        ({"level": 0.4}, "level must be"),
        ({"permutations": 3}, "permutations must be"),
    ],
)
def test_ranges(arguments, said):
    with pytest.raises(UsageError, match=said):
        pivec.same(states(), states(label="b"), **arguments)
    with pytest.raises(UsageError, match="expected two policies"):
        pivec.same(states())


# ---- what stands on either side ----


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store and a space as `compare` leaves them, and another store."""
    where = tmp_path_factory.mktemp("accepted")
    policies = {"random": "random", "still": still}
    pivec.collect("CartPole-v1", policies, 12, store=where / "out" / "states")
    pivec.compare(where / "out" / "states", out=where / "out", **FEW)
    pivec.collect("CartPole-v1", "random", 12, 1, store=where / "store")
    return where


# Velocities of a random CartPole are strongly correlated.
@pytest.mark.filterwarnings("ignore:.*copies of each other")
def test_labels_behind_folders(folder):
    assert pivec.same(f"{folder}/out:still", f"store:{folder}/store", **FEW).labels == (
        "still",
        "random",
    )
    with pytest.raises(UsageError, match=r"2 policies.*out:random"):
        pivec.same(folder / "out", folder / "store", **FEW)
    with pytest.raises(UsageError, match=r"no policy 'stil' \(did you mean still"):
        pivec.same(f"{folder}/out:stil", folder / "store", **FEW)


def test_labels_behind_recorded_files(tmp_path, rng):
    parts = [(label, e) for label in "ab" for e in range(6)]
    frames = [
        pd.DataFrame({"policy": p, "episode": e, "x": (p == "b") + rng.normal(size=9)})
        for p, e in parts
    ]
    pd.concat(frames).to_csv(path := tmp_path / "log.csv", index=False)
    assert pivec.same(f"{path}:a", f"{path}:b", **FEW).labels == ("a", "b")
    with pytest.raises(UsageError, match=r"log\.csv:a"):
        pivec.same(path, f"{path}:b", **FEW)


def test_the_last_step_of_a_run_is_taken_and_said(walks, tmp_path):
    settings = {"environment": "Walk-v0", "actions": walks.has_actions}
    write_store(walks, tmp_path / "all", settings)
    write_store(walks.select(groups="run_0"), tmp_path / "run", settings)
    other = walks.select(groups="run_1").select([0])
    with pytest.warns(PivecWarning, match="run_0/200"):
        assert pivec.same(tmp_path / "run", other, **FEW).labels[0] == "run_0/200"
    with pytest.raises(UsageError, match="all:run_0/0"):
        pivec.same(tmp_path / "all", other, **FEW)
    # The end of a label, where there is one such.
    assert pivec.same(f"{tmp_path}/run:100", other, **FEW).labels[0] == "run_0/100"
    with pytest.raises(UsageError, match=r"'100'.*run_0/100, run_1/100"):
        pivec.same(f"{tmp_path}/all:100", other, **FEW)


def test_a_policy_against_itself_plays_other_episodes(run):
    done = run("same", "CartPole-v1", "random", "random", *SMALL, "--margin", 1e-4, "--json",
               code=3)  # fmt: skip
    assert "(seed 1)" in done.err
    assert json.loads(done.out)["labels"] == ["random", "random (second)"]


def test_stores_need_no_environment_and_are_left_as_they_are(run, folder):
    before = sorted(path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file())
    done = run("same", folder / "store", f"{folder}/out:still", *BRIEF, code=1)
    assert "random and still: different" in done.out
    assert before == sorted(p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file())


@pytest.mark.filterwarnings("ignore:.*copies of each other")
def test_who_acts_beside_a_store_acts_as_it_did(run, folder):
    """The environment and how it is played come from the store, and differences are said."""
    done = run(
        "same", folder / "store", "random", "--episodes", 8, *BRIEF, "--margin", 1e-4, code=3
    )
    assert "max_steps" not in done.err
    with pytest.warns(PivecWarning, match="max_steps = None"):
        pivec.same(folder / "store", "random", max_steps=5, episodes=8, seed=2, **FEW)


def test_a_store_may_not_ask_for_code(folder, tmp_path):
    shutil.copytree(folder / "store", tmp_path / "strange")
    store = pivec.Store(tmp_path / "strange")
    store.settings["environment"] = "antigravity:CartPole-v1"
    store.flush()
    with pytest.raises(UsageError, match="strange asks for the environment 'antigravity:"):
        pivec.same(tmp_path / "strange", "random", **FEW)


# ---- the command line ----


def test_the_answer_for_machines(run):
    done = run("same", "CartPole-v1", "random", f"{__name__}:still", "--trust", *SMALL,
               "--json", "--junit", "same.xml", code=1)  # fmt: skip
    answer = json.loads(done.out)
    assert answer["verdict"] == "different"
    assert answer["episodes"] == [12, 12]
    suite = parse("same.xml").getroot()[0]
    assert suite.attrib == {"name": "pivec same", "tests": "1", "failures": "1", "errors": "0"}
    case = suite[0]
    assert case.attrib["name"] == f"{__name__}:still behaves like random"
    assert case[0].attrib["type"] == "different"
    run("same", "CartPole-v1", "random", "random", *SMALL, "--margin", 0.9, "--junit", "same.xml")
    assert parse("same.xml").getroot()[0].attrib["failures"] == "0"


def test_failures_have_a_code_of_their_own(run, folder):
    assert "expected [ENV] A B" in run("same", "random", code=2).err
    assert "is not a folder" in run("same", "E", "a", "b", "--junit", "no/x.xml", code=2).err
    broken = folder / "broken"
    shutil.copytree(folder / "store", broken)
    next(broken.glob("*.arrow")).write_bytes(b"no")
    assert "does not match its checksum" in run("same", broken, folder / "store", code=2).err


def test_the_gate(run, folder):
    """Against the policy of a space: its settings are taken, nothing is fitted again."""
    accepted = f"{folder}/out:random"
    done = run("same", "random", "--against", accepted, "--episodes", 8, "--margin", 1e-4, code=3)
    assert "seed 1" in done.err  # the accepted policy itself
    assert "permutation" in done.out
    done = run(
        "same", f"{__name__}:still", "--against", accepted, "--episodes", 8, "--json", code=1
    )
    assert json.loads(done.out)["labels"] == ["random", f"{__name__}:still"]
    assert "2 policies" in run("same", "random", "--against", folder / "out", code=2).err
    assert "method" in run("same", "random", "--against", accepted, "--method", "gaussian",
                              code=2).err  # fmt: skip
    assert "environment" in run("same", "Acrobot-v1", "random", "--against", accepted, code=2).err


def test_a_gate_without_states_has_an_analytic_test(run, folder):
    shutil.copytree(folder / "out" / "space", "space")
    done = run("same", f"{__name__}:still", "--against", "space:random", "--episodes", 8, code=1)
    assert "analytic" in done.out
    within = pivec.same(still, against=f"{folder}/out:random", episodes=8)
    with pytest.warns(PivecWarning, match="only moves"):
        without = pivec.same(still, against="space:random", episodes=8)
    assert [view.name for view in without.views] == ["moves"]
    assert pivec.same(still, against="space:random", views=["moves"], episodes=8) == without
    assert without.distance == pytest.approx(within.distance, rel=1e-4)
    assert without.high == pytest.approx(within.high, rel=1e-3)


# ---- how many episodes ----


def test_a_plan_holds(run):
    """Played with as many episodes as planned, intervals are about that narrow."""
    places = {"a": 0.0, "b": 0.5, "c": 2.0}
    pilot, full = (
        VisitedStates(
            [states(place, episodes=n, label=label).records[0] for label, place in places.items()],
            ("x", "y"),
        )
        for n in (20, 400)
    )
    plan = pivec.plan(None, pilot, 0.03, **FEW)
    assert plan.for_precision.shape == (3, 3)
    assert plan.labels == ("a", "b", "c")
    assert (plan.for_precision == plan.for_precision.T).all()
    method = pivec.characterization("visitation", n_components=4, random_state=0).fit(pilot)
    sure = method.intervals(full)
    widths = 1.98 * np.sqrt(
        sure.first * 400 / plan.for_precision + sure.second * (400 / plan.for_precision) ** 2
    )
    assert np.isclose(widths[np.triu_indices(3, 1)], 0.03, rtol=0.5).all()
    assert (plan.to_nearest == plan.for_precision[[0, 1, 2], [1, 0, 1]]).all()


def test_a_plan_on_the_command_line(run):
    done = run("plan", "CartPole-v1", "random:2", *BRIEF, "--episodes", 5)
    assert "from 5 episodes" in done.out
    assert "± 0.02 to its nearest" in done.out
    alone = json.loads(run("plan", "CartPole-v1", "random", *BRIEF, "--json").out)
    assert alone["pilot"] == 20
    assert alone["for_precision"][0][0] >= 2
    assert alone["to_decide"][0][0] > 20
    other = run("plan", "CartPole-v1", "random:2", "--method", "returns", "--precision", 3).out
    assert "same" not in other


def test_recorded_states_are_a_pilot(run, tmp_path):
    data = states(episodes=8)
    write_store(data, tmp_path, {})
    plan = json.loads(run("plan", tmp_path, *BRIEF, "--json").out)
    assert plan == plan_json(pivec.plan(None, data, **FEW))
    assert plan["pilot"] == 8


def test_a_plan_for_one_policy_needs_influences():
    with pytest.raises(UsageError, match="influences"):
        pivec.plan(None, states(), method="sliced-wasserstein")
