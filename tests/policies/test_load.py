"""From names to policies: files, folders, globs, random, module:object, Python objects."""

from __future__ import annotations

import sys
import textwrap

import numpy as np
import pytest

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import (
    FORMATS,
    NamedPolicy,
    NetworkPolicy,
    PolicyInfo,
    UniformPolicy,
    load_policies,
    name_policies,
    register_format,
    save_policy,
)

RNG = np.random.default_rng(0)


def make(seed=0):
    weights = np.random.default_rng(seed).normal(size=(2, 2))
    return NetworkPolicy(((weights, np.zeros(2)),), "tanh", "categorical")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, run in enumerate(("run_2", "run_10")):
        for step in (10000, 9000, 500):
            path = tmp_path / "runs" / run / f"step_{step}.safetensors"
            save_policy(make(step + number), path, {"algorithm": "PPO", "step": step})
    (tmp_path / "runs" / "run_2" / "monitor.csv").write_text("r,l,t\n")
    (tmp_path / "runs" / ".hidden.safetensors").write_text("")
    return tmp_path / "runs"


def labels(policies):
    return [each.info.label for each in policies]


SORTED = [f"{run}/step_{step}" for run in ("run_2", "run_10") for step in (500, 9000, 10000)]


@pytest.mark.parametrize(
    "spec", ["runs", "runs/", "runs/**/*.safetensors", "runs/*/*", "runs/**", "./runs/*/step_*"]
)
def test_folders_and_globs_are_sorted_as_people_count(runs, spec):
    assert labels(load_policies(spec)) == SORTED


def test_a_glob_of_folders_means_what_is_below_them(runs):
    assert labels(load_policies("runs/run_*")) == SORTED


def test_everything_known_about_a_file_is_told(runs):
    path = runs / "run_2" / "step_500.safetensors"
    (named,) = load_policies(path)
    assert named.info == PolicyInfo(
        label="run_2/step_500",
        group="run_2",
        step=500,
        source=str(path),
        metadata={"algorithm": "PPO", "step": 500},
        fingerprint=make(500).fingerprint,
    )


def test_the_step_inside_the_file_counts_where_its_name_has_none(tmp_path):
    save_policy(make(), tmp_path / "best.safetensors", {"step": 77})
    save_policy(make(), tmp_path / "odd.safetensors", {"step": "many"})
    assert [each.info.step for each in load_policies(tmp_path)] == [77, None]


def test_a_file_named_twice_counts_once(runs):
    link = runs / "link.safetensors"
    link.symlink_to(runs / "run_2" / "step_500.safetensors")
    specs = ["runs/run_2/step_500.safetensors", runs / "run_2", "runs/run_2/*", link]
    assert labels(load_policies(specs)) == [f"run_2/step_{step}" for step in (500, 9000, 10000)]


def test_the_order_of_the_specs_is_kept(runs):
    specs = ["random", "runs/run_10/step_500.safetensors", "runs/run_2/step_500.safetensors"]
    assert labels(load_policies(specs)) == ["random", "run_10/step_500", "run_2/step_500"]


def test_labels_tell_files_of_different_specs_apart(tmp_path):
    for name in ("a", "b"):
        save_policy(make(), tmp_path / name / "run" / "1.safetensors")
    specs = [tmp_path / "a" / "run" / "1.safetensors", tmp_path / "b"]
    assert labels(load_policies(specs)) == ["a/run/1", "b/run/1"]


def test_names_with_brackets_are_files_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_policy(make(), "run[1]/a.safetensors")
    assert labels(load_policies("run[1]/a.safetensors")) == ["run[1]/a"]


def test_random_policies():
    named = load_policies(["random", "random:3", "random"])
    assert labels(named) == ["random", "random-0", "random-1", "random-2"]
    assert all(isinstance(each.policy, UniformPolicy) for each in named)
    assert {each.info.group for each in named} == {"random"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("runs/*/nothing_*.zip", r"'runs/\*/nothing_\*\.zip'.*quote"),
        ("nowhere/*.zip", "nowhere does not exist.*quote"),
        ("runs/run_2/step_501.safetensors", "run_2 holds .*step_500.safetensors"),
        ("runs/run_2/zzz.zip", "run_2 holds step_500.safetensors"),
        ("rums", "'rums'.* holds runs"),
        ("nowhere/a.zip", "nowhere does not exist"),
        ("runs/run_2/monitor.csv", r"monitor\.csv.*\.safetensors, \.zip"),
        ("runs/run_2/*.csv", "holds no policy file"),
        ("random:0", "random:0"),
        ("", "name of a policy"),
        ("a\0b", "name of a policy"),
        ([], "at least one policy"),
    ],
)
def test_mistakes_are_explained(runs, spec, words):
    with pytest.raises(UsageError, match=words):
        load_policies(spec)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match="policy file"):
        load_policies(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and so on"])
@pytest.mark.parametrize("suffix", [".zip", ".safetensors", ".ZIP"])
def test_damaged_files_are_named(tmp_path, content, suffix):
    path = tmp_path / f"step_5{suffix}"
    path.write_bytes(content)
    with pytest.raises(BadPolicyFile) as caught:
        load_policies(path)
    assert str(path) in str(caught.value)


MODULE = """
    import numpy as np
    from pivec.policies import UniformPolicy

    def still(observations):
        return np.zeros(len(observations), int)

    class Greedy:
        def act(self, observations, rng, deterministic=False):
            return np.ones(len(observations), int)

    class Nested:
        inner = Greedy()

    greedy = Greedy()
    number = 5

    def factory(size=3):
        return still

    def optional(observations=None):
        return np.full(len(observations), 2)

    def broken():
        return 1 / 0

    def quits():
        raise SystemExit(3)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_policies.py").write_text(textwrap.dedent(MODULE))
    yield "own_policies"
    sys.modules.pop("own_policies", None)


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("still", 0),
        ("Greedy", 1),
        ("greedy", 1),
        ("factory", 0),
        ("Nested.inner", 1),
        ("optional", 2),
    ],
)
def test_objects_of_a_module(module, name, action):
    (named,) = load_policies(f"{module}:{name}")
    assert named.policy.act(np.zeros((2, 3)), RNG).tolist() == [action] * 2
    assert (named.info.label, named.info.group) == (f"{module}:{name}", module)
    assert named.info.source == f"{module}:{name}"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("own_policies:missing", "missing"),
        ("no_such_module:thing", "ModuleNotFoundError"),
        ("own_policies:number", "of type int"),
        ("own_policies:broken", "ZeroDivisionError"),
        ("own_policies:quits", "SystemExit"),
    ],
)
def test_imports_that_fail_are_explained(module, spec, words):
    with pytest.raises(UsageError, match=words):
        load_policies(spec)


def still(observations):
    return np.zeros(len(observations), int)


class Greedy:
    def act(self, observations):
        return np.ones(len(observations), int)


def test_python_objects_get_names(runs):
    network = make()
    own = NamedPolicy(make(7), PolicyInfo("mine", group="g", step=4, fingerprint="own"))
    things = [still, Greedy(), lambda o: o, network, own, "runs/run_2/step_500.safetensors", still]
    named = name_policies(things)
    assert labels(named) == [
        "still",
        "policy-1",
        "policy-2",
        "policy-3",
        "mine",
        "run_2/step_500",
        "still-2",
    ]
    assert named[3].info.fingerprint == network.fingerprint
    assert named[4] == own
    assert named[0].policy.act(np.zeros((2, 1)), RNG).tolist() == [0, 0]


@pytest.mark.parametrize("thing", [still, Greedy(), "random", UniformPolicy()])
def test_one_thing_is_a_list_of_one(thing):
    assert len(name_policies(thing)) == 1


def test_a_named_policy_is_itself():
    own = NamedPolicy(make(), PolicyInfo("mine", fingerprint="own"))
    assert name_policies(own) == [own]


def test_a_mapping_gives_the_labels(runs):
    named = name_policies(
        {
            "lazy": still,
            "chance": "random",
            "file": "runs/run_2/step_500.safetensors",
            "all": "runs/run_10",
        }
    )
    some = [each for each in SORTED if each.startswith("run_10")]
    assert labels(named) == ["lazy", "chance", "file", *(f"all/{each}" for each in some)]
    assert named[2].info.step == 500


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([], "at least one policy"),
        ({}, "at least one policy"),
        ({5: still}, "5"),
        ([5], "of type int"),
        (5, "of type int"),
    ],
)
def test_things_that_are_no_policies_are_refused(policies, words):
    with pytest.raises(UsageError, match=words):
        name_policies(policies)


def test_two_policies_of_one_given_label_are_refused():
    own = NamedPolicy(make(), PolicyInfo("mine"))
    with pytest.raises(UsageError, match="labelled 'mine'"):
        name_policies([own, own])


def read_text(data, beside):
    return as_constant(int(data)), {"step": 3, "beside": beside.names(), "trust": beside.trust}


def as_constant(value):
    from pivec.policies import as_policy

    return as_policy(lambda observations: np.full(len(observations), value))


def test_formats_can_be_added(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, ".txt", "")
    monkeypatch.setitem(sys.modules, "reader_of_this_test", sys.modules[__name__])
    register_format(".txt", "reader_of_this_test:read_text")
    (tmp_path / "five.txt").write_text("5")
    (tmp_path / "notes.md").write_text("")
    (named,) = load_policies(tmp_path, trust=True)
    assert named.info.metadata == {"step": 3, "beside": ["notes.md"], "trust": True}
    assert named.info.step == 3
    assert named.policy.act(np.zeros((2, 1)), RNG).tolist() == [5, 5]
    (tmp_path / "five.txt").write_text("five")
    with pytest.raises(BadPolicyFile, match=r"five\.txt.*invalid"):
        load_policies(tmp_path)
    for suffix, reader in (("txt", "a:b"), (".TXT", "a:b"), (".txt", "ab")):
        with pytest.raises(UsageError, match="module:function"):
            register_format(suffix, reader)


def test_folders_leave_out_what_is_often_no_policy(tmp_path):
    save_policy(make(), tmp_path / "a.safetensors")
    np.savez(tmp_path / "evaluations.npz", results=np.zeros(3))
    np.save(tmp_path / "states.npy", np.zeros(3))
    (tmp_path / "replay_buffer.pkl").write_bytes(b"x")
    (tmp_path / "progress.json").write_text("{}")
    assert len(load_policies(tmp_path)) == len(load_policies(tmp_path / "*")) == 1
    for pattern in ("*.npz", "*.npy", "*.pkl"):
        with pytest.raises(BadPolicyFile):
            load_policies(str(tmp_path / pattern))


def test_what_lies_beside_counts_for_the_fingerprint(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(4))
    prints = []
    for head in ("categorical", "epsilon_greedy"):
        text = f'{{"sizes": [1, 2], "head": "{head}"}}'
        (tmp_path / "a.json").write_text(text)
        prints.append(load_policies(tmp_path)[0].info.fingerprint)
    assert prints[0] != prints[1]


def test_trust_is_passed_on(tmp_path):
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a/constants.pkl", b"")
    (tmp_path / "a.pt").write_bytes(buffer.getvalue())
    for load in (load_policies, name_policies):
        with pytest.raises(BadPolicyFile, match="--trust"):
            load(str(tmp_path))
