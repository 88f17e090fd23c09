"""Multi-agent environments of PettingZoo: the compared policies control one agent.

An environment is named ``pettingzoo:module`` or ``pettingzoo:module:function``. The agent and its
partners become arguments of the environment, so that a store knows them and episodes can be played
again. `AgentEnv` is the Gymnasium environment of one agent, in which the partners act.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, PivecWarning, UsageError, did_you_mean
from pivec.options import CollectOptions
from pivec.policies import (
    IMPORTABLE,
    NamedPolicy,
    Policy,
    UniformPolicy,
    import_here,
    name_policies,
    user_code,
)
from pivec.rollouts import observations as spaces
from pivec.rollouts.actors import make_actors
from pivec.rollouts.environment import GAME, Environment
from pivec.rollouts.features import Inputs
from pivec.rollouts.lanes import Layout

SELF = "self"  # the partner that is the policy itself
_NAMED = re.compile(r"(?P<agent>[\w*?-]+)=(?P<policy>.+)")
_CHUNK = 32  # actions whose random numbers are drawn at once
_LANE = np.zeros(1, np.intp)
_PARTNERS = 0x70617274  # separates their streams from those of the policy and the game
_SHOWN, _MASK = "observation", "action_mask"  # PettingZoo's names for the parts of an observation


# ---- making the environment, and choosing the partners ----


def make_agent_env(
    name: str,
    factory: Any,
    policies: Mapping[str, Any],
    *,
    agent: str | None = None,
    partners: Any = None,  # noqa: ARG001 - the description of ``policies``
    joint: bool = False,
    **arguments: Any,
) -> AgentEnv:
    """Make the environment of one agent."""
    if importlib.util.find_spec("pettingzoo") is None:
        raise MissingExtra(f"{name} is an environment of PettingZoo, which", "agents")
    import pettingzoo  # type: ignore[import-untyped]

    game = (factory or _game_function(name))(**arguments)
    if not isinstance(game, pettingzoo.AECEnv | pettingzoo.ParallelEnv):
        raise UsageError(f"{name} must make an environment of PettingZoo, but made {type(game)}")
    agents = list(game.possible_agents)
    if agent not in agents:
        wrong = "" if agent is None else f", and no {agent!r}{did_you_mean(agent, agents)}"
        raise UsageError(
            f"{name} has the agents {', '.join(agents)}{wrong}: choose the agent that the policies "
            "control with --agent (in Python agent=)"
        )
    acting = {a: named if named == SELF else named.policy for a, named in policies.items()}
    return AgentEnv(game, str(agent), acting, joint)


def _game_function(name: str) -> Any:
    """Find the function that makes a game, a parallel one if a module has both kinds."""
    path, _, function = name.removeprefix(GAME).partition(":")
    hint = " (its environments have moved to mpe2: pip install mpe2)" * ("mpe" in path)
    with user_code(f"{name} cannot be imported{hint}"):
        try:
            module: Any = import_here(path)
        except ModuleNotFoundError as error:
            if error.name != path.partition(".")[0]:
                raise
            module = import_here(f"pettingzoo.{path}")
    function = function or ("parallel_env" if hasattr(module, "parallel_env") else "env")
    if not hasattr(module, function):
        hint = did_you_mean(function, dir(module))
        raise UsageError(f"{path} has no {function!r}{hint}: expected a module of PettingZoo")
    return getattr(module, function)


def with_partners(environment: Environment, options: CollectOptions) -> Environment:
    """Choose agent and partners: those of the user, or else those in the arguments."""
    mine = _by_agent(options.partners)
    if environment.partners and not mine:
        return environment
    arguments = dict(environment.arguments)
    if options.agent is not None:
        arguments["agent"] = options.agent
    if options.joint:
        arguments["joint"] = True
    asked = mine or _by_agent(arguments.pop("partners", None))
    env = make_agent_env(environment.name, environment.factory, {}, **arguments)
    env.close()
    chosen = _partner_of_each(asked, list(env.partners))
    may_import = bool(mine) or options.trust  # arguments may come from an untrusted file
    read = {id(policy): _read_partner(policy, options, may_import) for policy in chosen.values()}
    policies = {agent: read[id(policy)] for agent, policy in chosen.items()}
    for name, policy in policies.items():
        agent = env.agents[name]
        if policy == SELF and (agent.observation_space.shape, agent.action_space) != (
            env.observation_space.shape,
            env.action_space,
        ):
            raise UsageError(
                f"self cannot control {name}, whose observations or actions differ from those of "
                f"{env.agent}: name a policy with --partners {name}=POLICY"
            )
    described = {agent: _partner_to_json(policy) for agent, policy in policies.items()}
    return replace(environment, arguments={**arguments, "partners": described}, partners=policies)


def _partner_of_each(asked: Mapping[str, Any], agents: Sequence[str]) -> dict[str, Any]:
    """Partner of each agent; a warning names those that act at random by default."""
    chosen = dict.fromkeys(agents, "random")
    random = set(agents)
    for pattern in sorted(asked, key=lambda pattern: "*" not in pattern):  # whole names win
        named = [agent for agent in agents if fnmatchcase(agent, pattern)]
        if not named:
            hint = did_you_mean(pattern, agents)
            raise UsageError(
                f"there is no partner {pattern!r}{hint}: the partners are {', '.join(agents)}"
            )
        chosen |= dict.fromkeys(named, asked[pattern])
        random -= set(named)
    if random:
        warnings.warn(
            f"{', '.join(sorted(random))} act{'s' * (len(random) == 1)} at random: choose partners "
            "with --partners [NAME=]POLICY (in Python partners=)",
            PivecWarning,
            stacklevel=6,
        )
    return chosen


def _by_agent(partners: Any) -> dict[str, Any]:
    """Partners by agent (``*`` for all), as the command line has them: ``[NAME=]POLICY``."""
    if isinstance(partners, Mapping):
        return dict(partners)
    if partners is None:
        return {}
    result: dict[str, Any] = {}
    single = isinstance(partners, str) or not isinstance(partners, Sequence)
    for partner in [partners] if single else partners:
        named = _NAMED.fullmatch(partner) if isinstance(partner, str) else None
        result[named["agent"] if named else "*"] = named["policy"] if named else partner
    return result


def _partner_to_json(partner: NamedPolicy | str) -> dict[str, str] | str:
    """Describe a partner: ``self``, ``random``, or the source of a policy and its fingerprint."""
    if isinstance(partner, str) or partner.info.source == "random":
        return partner if isinstance(partner, str) else "random"
    info = partner.info
    return {"kind": "policy", "source": info.source, "fingerprint": info.fingerprint}


def _read_partner(partner: Any, options: CollectOptions, may_import: bool) -> NamedPolicy | str:
    """Read a partner; one that a store describes must not have changed."""
    if partner == SELF:
        return SELF
    described = isinstance(partner, Mapping)
    source = partner.get("source") if described else partner
    if not may_import and IMPORTABLE.fullmatch(str(source)):
        raise UsageError(
            f"the partner {source} is a Python object: allow importing it with --trust (in Python: "
            "trust=True), or name partners again"
        )
    policies = name_policies(source, options.trust, options.without_normaliser)
    if len(policies) != 1:
        raise UsageError(f"a partner is one policy, but {source} are {len(policies)}")
    if described and policies[0].info.fingerprint != partner.get("fingerprint"):
        raise BadPolicyFile(f"the partner {source} has changed since the states were collected")
    return policies[0]


# ---- the environment of one agent ----


class Agent:
    """One agent of a game: its spaces, its policy, and the random stream of its episode.

    It stands for a single lane, so that `pivec.rollouts.actors` can call any kind of policy.
    """

    n = 1

    def __init__(self, name: str, observation_space: Any, action_space: Any) -> None:
        parts = getattr(observation_space, "spaces", None)
        masked = isinstance(parts, Mapping) and {_SHOWN, _MASK} <= set(parts)
        self.name, self.masked = name, masked
        self.observation_space = observation_space[_SHOWN] if masked else observation_space
        self.action_space = action_space
        self.observations = spaces.empty_batch(self.observation_space, 1)
        self.policy: Any = None

    def set_policy(self, policy: Policy, deterministic: bool) -> None:
        """Let a policy control the agent."""
        bind = getattr(policy, "bind", None)
        self.policy = policy if bind is None else bind(self.observation_space, self.action_space)
        self._deterministic = deterministic and not isinstance(self.policy, UniformPolicy)
        lanes: Any = self
        self._actors = make_actors(self.policy, Layout(1, 1), _CHUNK, lanes, self._deterministic)
        self._actors.put(0, self.policy)

    def begin(self, seed: np.random.SeedSequence) -> None:
        """Start an episode."""
        acting, mending = seed.generate_state(2) >> 1
        self._rng, self._time = np.random.Generator(np.random.PCG64(mending)), 0
        if self.policy is not None:
            self._actors.begin(0, int(acting), 0)

    def observe(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Take an observation with its mask of legal actions; return it without the mask."""
        self._legal = observation[_MASK] if self.masked else info.get(_MASK)
        shown = observation[_SHOWN] if self.masked else observation
        spaces.assign(self.observations, 0, shown)
        return shown

    @property
    def flat(self) -> NDArray[np.float32]:
        """The observation as a batch of one flat row."""
        rows: NDArray[np.float32] = spaces.flatten(self.observation_space, self.observations)
        return rows

    def action_masks(self) -> NDArray[np.bool_]:
        """Mask of legal actions, for policies that ask."""
        every = np.ones(int(getattr(self.action_space, "n", 1)), dtype=bool)
        return every if self._legal is None else np.asarray(self._legal, dtype=bool)

    def inputs(self, rows: slice) -> Inputs:  # noqa: ARG002 - there is one lane
        """Observations, infos and environments of the lane, which is the agent itself."""
        return self.observations, [{}], [self]

    def get_wrapper_attr(self, name: str) -> Any:
        return getattr(self, name)

    def act(self) -> Any:
        """Return a legal action of the policy."""
        if self._time == _CHUNK:
            self._actors.renew(_LANE)
            self._time = 0
        action = self._actors.actions(self._shown(), _LANE, self._time)[0]
        self._time += 1
        return self.legal(action.item() if action.ndim == 0 else action)

    def _shown(self) -> Any:
        return self.flat if self._actors.needs_flat else self.observations

    def legal(self, action: Any) -> Any:
        """Return the action, or a legal one instead of an illegal one.

        That is drawn by the policy's probabilities of legal actions, so that these are as frequent
        as if the others had been masked before: p + (1 - sum) p / sum = p / sum.
        """
        discrete = isinstance(self.action_space, gymnasium.spaces.Discrete)
        if self._legal is None or self.policy is None or not discrete:
            return action
        mask, first = np.asarray(self._legal, dtype=bool), int(self.action_space.start)
        if mask[action - first] or not mask.any():
            return action
        weights = mask / mask.sum()
        chances = self._probabilities(mask)
        if chances is not None and chances.any():
            if self._deterministic:
                return first + int(chances.argmax())
            weights = chances / chances.sum()
        return first + int(self._rng.choice(len(mask), p=weights))

    def _probabilities(self, mask: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """Probabilities of legal actions, if the policy has any."""
        try:
            chances = np.asarray(self.policy.distribution(self._shown()), dtype=np.float64)
        except (AttributeError, TypeError, ValueError):  # none, or one that needs a memory
            chances = np.zeros(0)
        if chances.shape == (1, len(mask)):
            return np.asarray(chances[0] * mask)
        if not isinstance(self.policy, UniformPolicy):
            warnings.warn(
                f"the policy of {self.name} takes illegal actions and has no probabilities: they "
                "are replaced by random legal actions",
                PivecWarning,
                stacklevel=2,
            )
        return None


class AgentEnv(gymnasium.Env[Any, Any]):
    """A game from the view of ``agent``, with ``partners`` by name; others act at random.

    Games are parallel or turn by turn (AEC). A step is one action of the agent, and includes what
    the others do until its next turn. The reward is the agent's own, with ``joint`` the sum of all.
    An episode ends when the agent's does. `joint` has what every agent observes, and ``state()``
    is the game's.
    """

    def __init__(
        self, game: Any, agent: str, partners: Mapping[str, Policy | str], joint: bool = False
    ) -> None:
        self.game, self.agent, self._sums = game, agent, joint
        self.turns = hasattr(game, "agent_iter")  # whether agents act one after another
        self.agents = {
            name: Agent(name, game.observation_space(name), game.action_space(name))
            for name in game.possible_agents
        }
        self._mine = self.agents[agent]
        self.observation_space = self._mine.observation_space
        self.action_space = self._mine.action_space
        self.metadata, self.render_mode = game.metadata, getattr(game, "render_mode", None)
        self.partners = dict.fromkeys(self.agents, UniformPolicy()) | dict(partners)
        del self.partners[agent]
        self.set_agent_policy(None, False)

    def set_agent_policy(self, policy: Policy | None, deterministic: bool) -> None:
        """Set the policy of the agent, which is also that of `SELF`; at random until then."""
        for name, partner in self.partners.items():
            itself = UniformPolicy() if policy is None else policy
            acting: Any = itself if partner == SELF else partner
            self.agents[name].set_policy(acting, deterministic)
        if policy is not None:
            self._mine.set_policy(policy, deterministic)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, up to the agent's first turn."""
        super().reset(seed=seed)
        seed = int(self.np_random.integers(2**31)) if seed is None else seed
        for number, agent in enumerate(self.agents.values()):
            agent.begin(np.random.SeedSequence([seed, _PARTNERS, number]))
        if self.turns:
            self.game.reset(seed=seed, options=options)
            self._reward = 0.0
            shown, _, over, _, info = self._until_turn()
            if over:
                raise UsageError(f"{self.agent} has no turn in the episode of seed {seed}")
            return shown, info
        observations, infos = self.game.reset(seed=seed, options=options)
        self._observe(observations, infos)
        return self._shown, infos.get(self.agent, {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the agent; partners act at the same time or afterwards."""
        action = self._mine.legal(action)
        if self.turns:
            self._reward = 0.0
            self._step_turn(action)
            return self._until_turn()
        moves = {name: self.agents[name].act() for name in self.game.agents if name != self.agent}
        shown, rewards, terminated, truncated, infos = self.game.step({**moves, self.agent: action})
        self._observe(shown, infos)
        reward = sum(rewards.values()) if self._sums else rewards.get(self.agent, 0.0)
        over = terminated.get(self.agent, self.agent not in self.game.agents)
        cut = truncated.get(self.agent, False)
        return self._shown, float(reward), bool(over), bool(cut), infos.get(self.agent, {})

    def _observe(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        for name, observation in observations.items():
            shown = self.agents[name].observe(observation, infos.get(name, {}))
            if name == self.agent:
                self._shown = shown

    def _step_turn(self, action: Any) -> None:
        """Step the agent whose turn it is."""
        self.game.step(action)
        rewards = self.game.rewards
        self._reward += sum(rewards.values()) if self._sums else rewards.get(self.agent, 0.0)

    def _until_turn(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step partners until it is the agent's turn, or its episode is over."""
        while self.game.agents:
            name = self.game.agent_selection
            observation, reward, over, cut, info = self.game.last()
            shown = self.agents[name].observe(observation, info)
            if name == self.agent:
                self._shown = shown
                total = self._reward if self._sums else reward
                return shown, float(total), bool(over), bool(cut), info
            self._step_turn(None if over or cut else self.agents[name].act())
        return self._shown, self._reward, True, False, {}  # it left without a last turn

    @property
    def joint(self) -> dict[str, NDArray[np.float32]]:
        """Current or last observation of every agent as a flat row."""
        if self.turns:
            for name in self.game.agents:
                observation = self.game.observe(name)
                shown = observation[_SHOWN] if self.agents[name].masked else observation
                spaces.assign(self.agents[name].observations, 0, shown)
        return {name: agent.flat[0] for name, agent in self.agents.items()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Mask of the agent's legal actions, as MaskablePPO asks for it."""
        return self._mine.action_masks()

    def state(self) -> Any:
        return self.game.state()

    def render(self) -> Any:
        return self.game.render()

    def close(self) -> None:
        self.game.close()
