"""Games of several agents: a role is an environment, partners act in it, and stores know them."""

from __future__ import annotations

import numpy as np
import pytest
from games_world import Chase
from gymnasium import spaces
from worlds import same

import pivec
from pivec.errors import MissingExtra, PivecWarning, UsageError
from pivec.explanations import Replayer
from pivec.explanations.clips import pictures
from pivec.options import CollectOptions, ReplayOptions
from pivec.policies import MaskedPolicy, NetworkPolicy, save_policy
from pivec.rollouts import Environment, environment_of
from pivec.rollouts.games import Agent, AgentEnv
from pivec.states import Store

CHASE, NIM = "pettingzoo:games_world", "pettingzoo:games_world:Nim"


def left(observations):
    return np.zeros(len(observations), int)


def away(observations):
    return (observations[:, 0] > observations[:, 1]).astype(int)


def coin(observations, rng):
    return rng.integers(2, size=len(observations))


def alternate(observations, memory=None):
    memory = np.zeros(len(observations), int) if memory is None else memory + 1
    return memory % 2, memory


def play(policies, env=CHASE, agent="hunter", partners="self", episodes=4, **options):
    return pivec.collect(
        env, policies, episodes=episodes, agent=agent, partners=partners, **options
    )


# ---- what is played ----


def by_hand(seed, moves):
    """Play the parallel game with a policy for each agent; return what each saw, and rewards."""
    game = Chase()
    shown, _ = game.reset(seed=seed)
    seen, rewards = {agent: [row] for agent, row in shown.items()}, dict.fromkeys(shown, 0.0)
    while game.agents:
        actions = {a: int(moves[a](shown[a][None])[0]) for a in game.agents}
        shown, gains, *_ = game.step(actions)
        for agent, row in shown.items():
            seen[agent].append(row)
            rewards[agent] += gains[agent]
    return seen, rewards


@pytest.mark.parametrize("agent", ["hunter", "prey_0", "prey_1"])
def test_a_parallel_game_as_a_role_sees_it(agent):
    moves = {"hunter": left, "prey_0": away, "prey_1": left}
    partners = {role: move for role, move in moves.items() if role != agent}
    data = play({"it": moves[agent]}, agent=agent, partners=partners, episodes=10)
    seeds = data.records[0].episodes["seed"].tolist()
    for seed, states, total in zip(seeds, data.episodes(), data.returns, strict=True):
        seen, rewards = by_hand(seed, moves)
        assert np.array_equal(states, seen[agent])
        assert total == rewards[agent]
    if agent != "hunter":
        assert any(len(states) < 13 for states in data.episodes())  # it was met, and left


def test_joint_states_are_those_of_all_and_rewards_their_sum():
    moves = {"hunter": left, "prey_0": away, "prey_1": left}
    data = play({"it": left}, partners={"prey_0": away, "prey_1": left}, joint=True)
    assert data.feature_names[:3] == ("joint.hunter[0]", "joint.hunter[1]", "joint.prey_0[0]")
    for row, states in enumerate(data.episodes()):
        seen, rewards = by_hand(int(data.records[0].episodes["seed"][row]), moves)
        for place, rows in enumerate(seen.values()):
            mine = states[: len(rows), 2 * place : 2 * place + 2]
            assert np.array_equal(mine, rows)
        assert data.returns[row] == sum(rewards.values())
    shown = play({"it": left}, features="env:state")
    assert shown.feature_names == ("state[0]", "state[1]", "state[2]")


def greedy(observations):
    """Leave a multiple of four where that can be done: this wins."""
    return ((observations[:, 0] - 1) % 4).clip(0, 2).astype(int)


@pytest.mark.parametrize("in_info", [False, True])
@pytest.mark.parametrize("agent", ["first", "second"])
def test_a_game_turn_by_turn(agent, in_info):
    data = play({"greedy": greedy}, NIM, agent, "random", 60, env_kwargs={"in_info": in_info})
    assert (data.states[:, 1] == (agent == "second")).all()
    assert set(data.returns) <= {-1.0, 1.0}
    assert np.mean(data.returns) > 0.4
    for states in data.episodes():
        assert (np.diff(states[:, 0]) < 0).all()
        assert states[-1, 0] == 0


def test_both_in_one_policy_win_as_often_as_they_lose():
    assert play({"r": "random"}, NIM, "second", "self", joint=True).returns.tolist() == [0.0] * 4


def network(bias):
    return NetworkPolicy(((np.zeros((2, len(bias))), np.asarray(bias)),), "tanh", "categorical")


def test_illegal_moves_are_masked_by_the_policy_s_probabilities():
    agent = Agent("it", spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3))
    policy = network(np.log([0.5, 0.3, 0.2]))
    agent.set_policy(policy, False)
    agent.begin(np.random.SeedSequence(0))
    agent.observe(np.zeros(2, np.float32), {"action_mask": [0, 1, 1]})
    drawn = np.bincount([agent.act() for _ in range(4000)], minlength=3) / 4000
    assert drawn[0] == 0
    assert drawn[1:] == pytest.approx([0.6, 0.4], abs=0.04)  # five standard errors
    agent.set_policy(policy, True)
    agent.begin(np.random.SeedSequence(0))
    assert agent.act() == 1


def test_masked_policies_ask_the_game():
    policy = MaskedPolicy(network([0.0, 1.0, 2.0]))
    data = play({"masked": policy}, NIM, "first", "self", deterministic=True)
    for states in data.episodes():  # three each, as long as there are three
        assert (np.diff(states[:-1, 0]) == -6).all()
    two = MaskedPolicy(network([0.0, 1.0]))  # where all is legal
    assert play({"masked": two}, agent="prey_0", partners="random").n_episodes == 4


def test_illegal_moves_without_probabilities_are_replaced_and_that_is_said():
    with pytest.warns(PivecWarning, match=r"second .*illegal"):
        play({"three": lambda observations: np.full(len(observations), 2)}, NIM, "first")


def test_a_partner_may_have_a_memory():
    data = play({"it": left}, partners=[alternate], joint=True)
    for states in data.episodes():
        steps = np.diff(states[:, 2])
        met = np.flatnonzero(steps == 0)[:1].tolist() or [len(steps)]  # it stays where it was
        assert (steps[: met[0]] == np.resize([-1, 1], met[0])).all()


# ---- everything else works unchanged ----


def test_episodes_depend_on_nothing_but_their_seed():
    policies = {"coin": coin, "alternate": alternate, "random": "random"}
    data = play(policies, partners=["self", "prey_1=random"], joint=True)
    for options in ({"n_envs": 1}, {"n_envs": 5}, {"jobs": 2}):
        again = play(policies, partners=["self", "prey_1=random"], joint=True, **options)
        assert same(data, again)
    assert not same(data, play(policies, partners="self", joint=True))


def test_partners_may_take_their_likeliest_actions():
    policy = network([0.0, 0.1, 0.0])
    data = play({"net": policy}, NIM, "first", "self", deterministic=True, episodes=3)
    for states in data.episodes():
        assert (np.diff(states[:-1, 0]) == -4).all()  # two moves of two


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_episodes_play_again_and_are_drawn(tmp_path):
    data = play({"coin": coin}, partners=["self", "prey_1=random"], joint=True, store=tmp_path)
    replayer = Replayer(Store(tmp_path), ReplayOptions(env=CHASE, policies={"coin": coin}))
    for number, states in enumerate(data.episodes()):
        take = replayer.stored("coin", number)
        assert np.array_equal(take.states, states)
        drawn = dict(pictures(replayer.scene, take, {0, take.last}))
        assert [frame.shape for frame in drawn.values()] == [(16, 128, 3)] * 2


def test_a_store_knows_the_partners(tmp_path):
    file = tmp_path / "partner.safetensors"
    save_policy(network([0.0, 1.0]), file)
    partner = f"prey_*={file}"
    store = tmp_path / "states"
    play({"left": left}, partners=partner, store=store)
    arguments = Store(store).settings["arguments"]
    assert arguments["agent"] == "hunter"
    assert arguments["partners"]["prey_1"]["source"] == str(file)
    play({"left": left}, partners=partner, store=store)
    with pytest.raises(pivec.PivecError, match="arguments"):
        play({"left": left}, partners="self", store=store)
    save_policy(network([1.0, 0.0]), file)
    with pytest.raises(pivec.PivecError, match="arguments"):
        play({"left": left}, partners=partner, store=store)
    with pytest.raises(pivec.PivecError, match=r"partner\.safetensors has changed"):
        _ = Replayer(Store(store), ReplayOptions(env=CHASE, policies={"left": left})).environment


# ---- what is said ----


def test_without_a_role_the_roles_are_named():
    with pytest.raises(UsageError, match=r"hunter, prey_0, prey_1.*--agent"):
        pivec.collect(CHASE, "random", episodes=1)
    with pytest.raises(UsageError, match=r"'huntr' \(did you mean hunter\?\)"):
        play("random", agent="huntr")


def test_partners_that_nobody_named_are_random_and_that_is_said():
    with pytest.warns(PivecWarning, match=r"prey_0 .*--partners"):
        play({"left": left}, partners="prey_1=self")


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("CartPole-v1", {"agent": "x"}, "CartPole-v1.*pettingzoo:module"),
        (CHASE, {"partners": "prey_7=self"}, "'prey_7'.*prey_0, prey_1"),
        (CHASE, {"partners": ["random:2"]}, "random:2 are 2"),
        ("pettingzoo:no.such", {}, "pettingzoo:no.such .*ModuleNotFoundError"),
        ("pettingzoo:mpe.simple_spread_v3", {}, "pip install mpe2"),
        ("pettingzoo:games_world:Nym", {}, "'Nym' .did you mean Nim"),
        ("pettingzoo:games_world:Seat", {}, "'Seat'"),
        ("pettingzoo:builtins:dict", {}, "PettingZoo.*dict"),
        (f"{CHASE}:Mixed", {}, "prey_0.*--partners prey_0=POLICY"),
    ],
)
def test_mistakes_are_told(env, options, words):
    with pytest.raises(pivec.PivecError, match=words):
        play("random", env, **options)


def test_a_function_of_python_makes_games_too():
    by_name = play({"coin": coin})
    by_function = play({"coin": coin}, Chase)
    assert same(by_name, by_function)
    assert by_function.environment == "pettingzoo:Chase"
    with pytest.raises(UsageError, match=r"pettingzoo:.*--agent"):
        pivec.collect(Chase, {"coin": coin}, episodes=1)


def test_partners_of_a_store_are_not_imported_without_trust(tmp_path):
    play({"left": left}, partners={"*": "test_games:away"}, store=tmp_path)
    with pytest.raises(pivec.PivecError, match=r"test_games:away.*--trust"):
        _ = Replayer(Store(tmp_path), ReplayOptions(env=CHASE, policies={"left": left})).environment
    trusting = ReplayOptions(env=CHASE, policies={"left": left}, trust=True)
    replayer = Replayer(Store(tmp_path), trusting)
    assert replayer.stored("left", 0).last > 0


def test_pettingzoo_is_an_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pivec\[agents\]"):
        Environment(CHASE).make()


def test_the_environment_alone_is_gymnasium_s():
    from gymnasium.utils.env_checker import check_env

    world = environment_of(CHASE, [], CollectOptions(agent="prey_0", partners="random"))
    env = world.make()
    assert isinstance(env, AgentEnv)
    check_env(env, skip_render_check=True)


def test_from_the_command_line(run):
    many = ["--episodes", 2, "--out", "s", "--actions"]
    said = run("collect", CHASE, "random", "--agent", "hunter", *many).err
    assert "prey_0, prey_1" in said
    assert "--partners" in said
    run("collect", CHASE, "random", "--agent", "prey_0", "--partners", "self", "--partners",
        "hunter=random", "--joint", "--episodes", 2, "--out", "joint")  # fmt: skip
    settings = Store("joint").settings
    assert settings["arguments"] == {
        "agent": "prey_0",
        "joint": True,
        "partners": {"hunter": "random", "prey_1": "self"},
    }
    assert "policies" in run("collect", CHASE, "--out", "n", code=2).err
    assert "--agent" in run("collect", CHASE, "random", "--out", "n", code=2).err
    run("collect", f'{CHASE}{{"preys": 1}}', "random", "--agent", "prey_0", "--partners", "random",
        "--features", "info:at", "--episodes", 2, "--out", "few")  # fmt: skip
    assert Store("few").feature_names == ("at",)
