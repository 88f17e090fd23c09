"""`pivec explain` as people use it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pivec
from pivec import figures as canvas

LABELS = ["ppo-0/100", "ppo-0/200", "[red]a2c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Leave a space without states, of an environment that nobody can make."""
    rng = np.random.default_rng(0)
    walks = [[rng.normal(place, 1.0, (30, 2)) for _ in range(10)] for place in (0.0, 0.05, 3.0)]
    groups, steps = ["ppo-0", "ppo-0", "a2c-0"], [100, 200, 100]
    data = pivec.VisitedStates.from_arrays(walks, LABELS, groups, steps=steps)
    method = pivec.characterization("visitation", n_components=4).fit(data)
    path = tmp_path_factory.mktemp("explained")
    described = method.describe(data, influences=True)
    pivec.Space(method, described, collected={"environment": "Walk-v0"}).save(path / "space")
    return path


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """A comparison whose episodes can be played again."""
    path = tmp_path_factory.mktemp("cartpole")
    policies = {"left": lambda seen: 0 * seen[:, 0].astype(int), "random": "random"}
    options = {"episodes": 6, "components": 3, "actions": True, "backend": "gymnasium"}
    pivec.compare("CartPole-v1", policies, path, **options)
    return path


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out figures, which take most of the time."""
    monkeypatch.setattr(canvas, "save_figure", lambda figure, path: path.touch())


def test_a_pair_is_told_and_left(run, folder, tmp_path):
    done = run("explain", folder, "ppo-0/100", "[red]a2c", "--out", tmp_path / "new")
    assert "ppo-0/100 and [red]a2c are 0." in done.out
    assert "A: ppo-0/100, 10 episodes" in done.out
    assert "Note: the states of ppo-0/100 and [red]a2c are not stored" in done.out
    assert "Note: ppo-0/100 cannot be run again" in done.out
    read = json.loads((tmp_path / "new" / "explain.json").read_text())
    assert read["decomposition"]["labels"] == ["ppo-0/100", "[red]a2c"]
    assert "[red]a2c" in (tmp_path / "new" / "explain.html").read_text()
    assert (tmp_path / "new" / "explain.png").stat().st_size > 10_000


def test_another_pair_does_not_take_the_place_of_the_first(run, folder, undrawn):
    for other in ("ppo-0/200", "[red]a2c"):
        run("explain", folder, "ppo-0/100", other, "--clips", 0, "--no-frames")
    left = sorted(path.parent.name for path in (folder / "explain").glob("*/explain.json"))
    assert left == ["ppo-0_100--ppo-0_200", "ppo-0_100--red_a2c"]


def test_json_is_all_that_is_printed(run, folder, undrawn, tmp_path):
    done = run("explain", folder, "100", "200", "--json", "--clips", 0, "--out", tmp_path)
    read = json.loads(done.out)
    assert read["significant"] is False
    assert read["headline"].startswith("ppo-0/100 and ppo-0/200 do not differ")


def test_without_names_notable_pairs_are_told(run, folder, undrawn, tmp_path):
    done = run("explain", folder, "--clips", 0, "--top", 2, "--out", tmp_path)
    titles = ["The nearest pair that can be distinguished", "The farthest pair"]
    assert [title for title in titles if f"{title}:" in done.out] == titles
    read = json.loads((tmp_path / "explain.json").read_text())
    assert [pair["pair"] for pair in read["pairs"]] == titles
    assert all(len(pair["leading"]) <= 2 for pair in read["pairs"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ppo-0/100"], "expected two policies after the folder, but got 1 (ppo-0/100)"),
        (["100", "200", "a"], "expected two policies after the folder, but got 3"),
        (["ppo-0/100", "ppo-0/20"], "no policy 'ppo-0/20' (did you mean ppo-0/200?)"),
        (["100", "100"], "'100' and '100' both refer to ppo-0/100: name another"),
        (["100", "200", "--run", "ppo-0"], "expected A B or --run, but got both"),
        (["--group", "sac=s", "--run", "ppo-0"], "expected --run or --group, but got both"),
        (["100", "200", "--policies", "nowhere.zip"], "nowhere.zip"),
        (["--run", "ppo"], "no run 'ppo' (did you mean ppo-0?)"),
        (["--last", "2"], "--group"),
        (["--group", "sac"], "--group expects NAME=PATTERN, but got 'sac'"),
        (["100", "200", "--level", "2"], "Invalid value for '--level'"),
        (["100", "200", "--out", ""], "expected the name of a folder"),
    ],
)
def test_mistakes_are_sentences(run, folder, arguments, message):
    done = run("explain", folder, *arguments, code=2)
    assert message in done.err


def test_a_run_and_groups_are_told_and_left(run, folder, undrawn):
    done = run("explain", folder, "--run", "ppo-0")
    assert "ppo-0" in done.out
    left = folder / "explain" / "run-ppo-0"
    assert json.loads((left / "explain.json").read_text())["run"] == "ppo-0"
    assert "ppo-0" in (left / "explain.html").read_text()
    done = run("explain", folder, "--group", "on=ppo-*", "--group", "off=a2c-*", "--last", 1)
    left = folder / "explain" / "groups-on--off"
    assert {path.name for path in left.iterdir()} == {"explain.html", "explain.json", "explain.png"}
    assert f"Page: {left / 'explain.html'}" in done.out


def test_pictures_and_clips_are_made_and_kept(run, cartpole, undrawn):
    done = run("explain", cartpole, "left", "random", "--top", 1)
    assert "with 2 pictures and 2 clips" in done.out
    folder = cartpole / "explain" / "left--random"
    read = json.loads((folder / "explain.json").read_text())
    files = [made["path"] for made in read["frames"] + read["clips"]]
    sheets = [sheet["path"] for clip in read["clips"] for sheet in clip["sheets"]]
    assert len(sheets) == 4
    assert all((folder / file).read_bytes()[8:12] == b"WEBP" for file in files + sheets)
    page = (folder / "explain.html").read_text()
    assert page.count('src="data:image/webp;base64,') == 2 + 4  # frames, and sheets
    assert "two different episodes" in page
    assert "both from seed" in page
    assert f"{cartpole}/report.html" in done.out
    page = (cartpole / "report.html").read_text()
    assert all(f'"explain/left--random/{file}"' in page for file in files + sheets)


@pytest.fixture
def blind(monkeypatch):
    """Let nothing be filmed."""
    failing = lambda jobs, *rest: ["it does not draw"] * len(jobs)  # noqa: E731
    monkeypatch.setattr("pivec.explanations.regions.render", failing)


def test_what_cannot_be_drawn_leaves_the_table_whole(run, cartpole, undrawn, blind, tmp_path):
    done = run("explain", cartpole, "left", "random", "--top", 1, "--out", tmp_path)
    assert "left and random are 0." in done.out
    assert done.out.count("Note: it does not draw") == 1
    read = json.loads((tmp_path / "explain.json").read_text())
    assert [clip["reason"] for clip in read["clips"]] == ["it does not draw"] * 2
    assert (tmp_path / "explain.html").read_text().count("t does not draw") == 5


def test_the_middle_of_each_behaviour_is_shown(run, cartpole, undrawn, blind, tmp_path):
    run("explain", cartpole, "--top", 1, "--clips", 1, "--out", tmp_path)
    read = json.loads((tmp_path / "explain.json").read_text())
    assert [pair["pair"] for pair in read["pairs"]] == [
        "The nearest pair that can be distinguished"
    ]
    assert [clip["title"] for clip in read["behaviours"]] == [
        "Behaviour class 1: 1 policy", "Behaviour class 2: 1 policy",
    ]  # fmt: skip
    assert "random, episode 0 (seed " in read["behaviours"][1]["caption"]
    assert "Behaviour class 2: 1 policy" in (tmp_path / "explain.html").read_text()


def test_an_environment_that_is_gone_leaves_the_table_whole(run, cartpole, undrawn, tmp_path):
    done = run("explain", cartpole, "left", "random", "--env", "Gone-v0", "--out", tmp_path / "new")
    assert "left and random are 0." in done.out
    assert "Gone-v0" in done.out
    assert (tmp_path / "new" / "explain.html").exists()
