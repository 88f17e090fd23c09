"""The same policy under several names counts once; policies that may differ never do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from test_load import labels, make

from pivec.errors import PivecWarning
from pivec.policies import NetworkPolicy, also_called, load_policies, name_policies, save_policy


def test_a_file_with_a_training_step_stays_and_keeps_the_other_names(tmp_path):
    for step in (100, 200):
        save_policy(make(step), tmp_path / f"rl_model_{step}_steps.safetensors")
    save_policy(make(200), tmp_path / "best_model.safetensors", {"step": 200})
    save_policy(make(200), tmp_path / "a_model.safetensors")
    words = r"2 of 4 policies are copies.*rl_model_200_steps \(also .*best_model, .*a_model\)"
    with pytest.warns(PivecWarning, match=words):
        named = name_policies(tmp_path)
    assert [each.info.step for each in named] == [100, 200]
    assert also_called(named[0].info) == ""
    assert [label.rpartition("/")[2] for label in named[1].info.metadata["also"]] == [
        "best_model",
        "a_model",
    ]


def test_without_a_step_the_first_in_natural_order_stays():
    for names in (["b9", "b10"], ["b10", "b9"]):
        with pytest.warns(PivecWarning, match=r"b9 \(also b10\)"):
            (named,) = name_policies({name: make() for name in names})
        assert (named.info.label, named.info.metadata["also"]) == ("b9", ["b10"])


def test_many_copies_are_one_warning(tmp_path):
    for i in range(8):
        for name in ("x", "y"):
            save_policy(make(i), tmp_path / f"{name}{i}.safetensors")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(name_policies(tmp_path)) == 8
    (warning,) = told
    assert "8 of 16" in str(warning.message)
    assert "and 3 more" in str(warning.message)


def test_named_again_nothing_is_said_twice():
    with pytest.warns(PivecWarning):
        named = name_policies({"a": make(), "b": make()})
    assert name_policies(named) == named


def test_loading_keeps_all_files(tmp_path):
    for name in "ab":
        save_policy(make(), tmp_path / f"{name}.safetensors")
    assert len(load_policies(tmp_path)) == 2


def still(observations):
    return np.zeros(len(observations), int)


def make_still():
    def act(observations):
        return still(observations)

    return act


@pytest.mark.parametrize(
    "policies",
    [
        {"a": make_still(), "b": make_still()},
        [make_still(), make_still()],
        [lambda o: o, lambda o: -o],
        ["random", "random:3"],
    ],
)
def test_functions_of_one_name_and_samples_of_chance_differ(policies):
    named = name_policies(policies)
    assert len(named) == len({each.info.fingerprint for each in named}) >= 2


@pytest.mark.parametrize("spec", ["random", "random:1", f"{__name__}:still"])
def test_what_has_no_weights_is_what_was_asked_for(spec):
    with pytest.warns(PivecWarning, match=r"a \(also b\)"):
        (one,) = name_policies({"b": spec, "a": spec})
    (alone,) = name_policies(spec)
    assert one.info.fingerprint == alone.info.fingerprint


def test_a_number_of_random_policies_begins_with_those_of_fewer():
    few, more = (name_policies(f"random:{n}") for n in (2, 3))
    assert [each.info for each in few] == [each.info for each in more][:2]


def test_a_function_beside_a_namesake_is_the_same():
    other = type(make_still)(still.__code__, globals(), "still")
    other.__module__ = "elsewhere"
    alone, beside = name_policies([still]), name_policies([other, still])
    assert labels(beside) == ["still", "still-2"]
    assert beside[1].info.fingerprint == alone[0].info.fingerprint


def test_two_saves_of_a_model_are_the_same_policy(tmp_path):
    models = pytest.importorskip("sb3_models")
    for algorithm, env in (("PPO", "CartPole-v1"), ("SAC", "Pendulum-v1")):
        made = models.model(algorithm, env)
        files = [tmp_path / f"{algorithm}-{name}.zip" for name in "ab"]
        files[0].write_bytes(models.saved(made))
        made.num_timesteps = 4096  # and with it the JSON part
        files[1].write_bytes(models.saved(made))
        assert files[0].read_bytes() != files[1].read_bytes()
        first, second = load_policies(files)
        assert first.info.fingerprint == second.info.fingerprint
        save_policy(first.policy, tmp_path / f"{algorithm}.safetensors")
        (ours,) = load_policies(tmp_path / f"{algorithm}.safetensors")
        assert ours.info.fingerprint == first.info.fingerprint


def test_programs_saved_under_other_names_are_the_same_policy(tmp_path):
    torch = pytest.importorskip("torch")
    from test_torch_models import module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript is on its way out
        programs = [torch.jit.trace(module(seed), torch.zeros(2, 4)) for seed in (0, 1)]
        for name, program in zip("abc", [programs[0], *programs], strict=True):
            torch.jit.save(program, str(tmp_path / f"{name}.pt"))
            (tmp_path / f"{name}.json").write_text('{"head": "categorical"}')
    a, b, c = (named.info.fingerprint for named in load_policies(tmp_path, trust=True))
    assert a == b != c


def settings(**changes):
    layer = (np.eye(2), np.zeros(2))
    return NetworkPolicy(
        **{
            "layers": (layer, layer),
            "activation": "tanh",
            "head": "gaussian",
            "log_std": np.zeros(2),
            "low": -np.ones(2),
            "high": np.ones(2),
        }
        | changes
    )


def test_everything_that_decides_actions_counts():
    from pivec.policies import Normaliser, Options

    layer = (np.eye(2), np.zeros(2))
    boxless = {"log_std": None, "low": None, "high": None}
    policies = [
        settings(),
        settings(layers=(layer, (np.eye(2), np.ones(2)))),
        settings(activation="relu"),
        settings(log_std=np.ones(2)),
        settings(low=-2 * np.ones(2)),
        settings(options=Options(squash=True)),
        settings(head="deterministic", log_std=None),
        settings(head="state_gaussian", log_std=None, low=None, high=None),
        settings(
            head="state_gaussian",
            log_std=None,
            low=None,
            high=None,
            options=Options(deviations="tanh"),
        ),
        settings(head="categorical", **boxless),
        settings(head="epsilon_greedy", **boxless, options=Options(epsilon=0.1)),
        settings(head="epsilon_greedy", **boxless, options=Options(epsilon=0.2)),
        settings(normaliser=Normaliser(np.zeros(2), np.ones(2), np.full(2, 10.0))),
        settings(normaliser=Normaliser(np.zeros(2), np.ones(2), np.full(2, 5.0))),
        settings(normaliser=Normaliser(np.ones(2), np.ones(2), np.full(2, 5.0))),
    ]
    assert len({policy.fingerprint for policy in policies}) == len(policies)
    assert settings().fingerprint == settings().fingerprint
