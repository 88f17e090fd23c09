"""One role of a game of several agents as a Gymnasium environment: partners act inside of it.

Games are PettingZoo's, parallel or turn by turn (AEC). A step is one action of the role; what the
others do until it is to act again belongs to the step. Partners draw from streams that follow from
the seed of the episode.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecWarning, UsageError
from pivec.policies import Policy, UniformPolicy
from pivec.rollouts import observations as spaces
from pivec.rollouts.answers import make_answers
from pivec.rollouts.backends import Layout
from pivec.rollouts.games import SELF
from pivec.rollouts.seen import Seen

_CHUNK = 32  # actions whose random numbers are drawn at once
_LANE = np.zeros(1, np.intp)
_PARTNERS = 0x70617274  # distinguishes their streams from those of the policy and the game
_SHOWN, _MASK = "observation", "action_mask"  # what PettingZoo calls the parts of an observation


class Seat:
    """A role, who acts in it, and the random stream of its episode.

    It is a single lane for `pivec.rollouts.answers`, which know how policies are asked.
    """

    n = 1

    def __init__(self, role: str, observation_space: Any, action_space: Any) -> None:
        parts = getattr(observation_space, "spaces", None)
        masked = isinstance(parts, Mapping) and {_SHOWN, _MASK} <= set(parts)
        self.role, self.masked = role, masked
        self.observation_space = observation_space[_SHOWN] if masked else observation_space
        self.action_space = action_space
        self.observations = spaces.empty_batch(self.observation_space, 1)
        self.policy: Any = None

    def put(self, policy: Policy, deterministic: bool) -> None:
        """Let a policy act here."""
        tell = getattr(policy, "bind", None)
        self.policy = policy if tell is None else tell(self.observation_space, self.action_space)
        self._mode = deterministic and not isinstance(self.policy, UniformPolicy)
        lanes: Any = self
        self._answers = make_answers(self.policy, Layout(1, 1), _CHUNK, lanes, self._mode)
        self._answers.put(0, self.policy)

    def begin(self, seed: np.random.SeedSequence) -> None:
        """Start an episode."""
        acting, mending = seed.generate_state(2) >> 1
        self._rng, self._time = np.random.Generator(np.random.PCG64(mending)), 0
        if self.policy is not None:
            self._answers.begin(0, int(acting), 0)

    def see(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Take in an observation and which moves are legal in it; give what policies see."""
        self._legal = observation[_MASK] if self.masked else info.get(_MASK)
        shown = observation[_SHOWN] if self.masked else observation
        spaces.assign(self.observations, 0, shown)
        return shown

    @property
    def flat(self) -> NDArray[np.float32]:
        """What is seen, as a batch of one flat row."""
        rows: NDArray[np.float32] = spaces.flatten(self.observation_space, self.observations)
        return rows

    def action_masks(self) -> NDArray[np.bool_]:
        """Tell which moves are legal, for policies that ask."""
        every = np.ones(int(getattr(self.action_space, "n", 1)), dtype=bool)
        return every if self._legal is None else np.asarray(self._legal, dtype=bool)

    def seen(self, rows: slice) -> Seen:  # noqa: ARG002 - there is one lane
        """Give what a lane shows; the seat stands for its environment."""
        return self.observations, [{}], [self]

    def get_wrapper_attr(self, name: str) -> Any:
        """Give an attribute, as environments do."""
        return getattr(self, name)

    def act(self) -> Any:
        """Give a legal action of the policy for what is seen."""
        if self._time == _CHUNK:
            self._answers.renew(_LANE)
            self._time = 0
        answer = self._answers.actions(self._shown(), _LANE, self._time)[0]
        self._time += 1
        return self.legal(answer.item() if answer.ndim == 0 else answer)

    def _shown(self) -> Any:
        return self.flat if self._answers.needs_flat else self.observations

    def legal(self, action: Any) -> Any:
        """Give the action, or a legal one where it is not.

        That is drawn by the policy's probabilities of legal moves, so that legal moves come as
        often as if the others had been masked before: p + (1 - sum) p / sum = p / sum.
        """
        numbered = isinstance(self.action_space, gymnasium.spaces.Discrete)
        if self._legal is None or self.policy is None or not numbered:
            return action
        mask, first = np.asarray(self._legal, dtype=bool), int(self.action_space.start)
        if mask[action - first] or not mask.any():
            return action
        weights = mask / mask.sum()
        chances = self._chances(mask)
        if chances is not None and chances.any():
            if self._mode:
                return first + int(chances.argmax())
            weights = chances / chances.sum()
        return first + int(self._rng.choice(len(mask), p=weights))

    def _chances(self, mask: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """Probabilities of legal moves, where the policy tells any."""
        try:
            chances = np.asarray(self.policy.distribution(self._shown()), dtype=np.float64)
        except (AttributeError, TypeError, ValueError):  # none, or one that needs a memory
            chances = np.zeros(0)
        if chances.shape == (1, len(mask)):
            return np.asarray(chances[0] * mask)
        if not isinstance(self.policy, UniformPolicy):
            warnings.warn(
                f"the policy of {self.role} makes illegal moves and tells no probabilities: a "
                "random legal move stands in for each",
                PivecWarning,
                stacklevel=2,
            )
        return None


class RoleEnv(gymnasium.Env[Any, Any]):
    """The game as ``agent`` sees it, against ``partners`` by role; those not named act at random.

    The reward is the role's own, with ``joint`` the sum of all. An episode ends when the role's
    does. `joint` has what every agent sees, and ``state()`` is the game's.
    """

    def __init__(
        self, game: Any, agent: str, partners: Mapping[str, Policy | str], joint: bool = False
    ) -> None:
        self.game, self.agent, self._sums = game, agent, joint
        self.turns = hasattr(game, "agent_iter")  # whether agents act one after another
        self.seats = {
            role: Seat(role, game.observation_space(role), game.action_space(role))
            for role in game.possible_agents
        }
        self._mine = self.seats[agent]
        self.observation_space = self._mine.observation_space
        self.action_space = self._mine.action_space
        self.metadata, self.render_mode = game.metadata, getattr(game, "render_mode", None)
        self.partners = dict.fromkeys(self.seats, UniformPolicy()) | dict(partners)
        del self.partners[agent]
        self.seat_policy(None, False)

    def seat_policy(self, policy: Policy | None, deterministic: bool) -> None:
        """Tell which policy acts in the role: it also acts as `SELF`, at random until then."""
        for role, partner in self.partners.items():
            itself = UniformPolicy() if policy is None else policy
            acting: Any = itself if partner == SELF else partner
            self.seats[role].put(acting, deterministic)
        if policy is not None:
            self._mine.put(policy, deterministic)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, up to the role's first turn."""
        super().reset(seed=seed)
        seed = int(self.np_random.integers(2**31)) if seed is None else seed
        for number, seat in enumerate(self.seats.values()):
            seat.begin(np.random.SeedSequence([seed, _PARTNERS, number]))
        if self.turns:
            self.game.reset(seed=seed, options=options)
            self._reward = 0.0
            shown, _, over, _, info = self._until_turn()
            if over:
                raise UsageError(f"{self.agent} has no turn in the episode of seed {seed}")
            return shown, info
        observations, infos = self.game.reset(seed=seed, options=options)
        self._see(observations, infos)
        return self._shown, infos.get(self.agent, {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let the role act, then or at once the partners."""
        action = self._mine.legal(action)
        if self.turns:
            self._reward = 0.0
            self._step(action)
            return self._until_turn()
        moves = {role: self.seats[role].act() for role in self.game.agents if role != self.agent}
        seen, rewards, terminated, truncated, infos = self.game.step({**moves, self.agent: action})
        self._see(seen, infos)
        reward = sum(rewards.values()) if self._sums else rewards.get(self.agent, 0.0)
        over = terminated.get(self.agent, self.agent not in self.game.agents)
        cut = truncated.get(self.agent, False)
        return self._shown, float(reward), bool(over), bool(cut), infos.get(self.agent, {})

    def _see(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        for role, observation in observations.items():
            shown = self.seats[role].see(observation, infos.get(role, {}))
            if role == self.agent:
                self._shown = shown

    def _step(self, action: Any) -> None:
        """Let the agent act whose turn it is."""
        self.game.step(action)
        gains = self.game.rewards
        self._reward += sum(gains.values()) if self._sums else gains.get(self.agent, 0.0)

    def _until_turn(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let partners act until it is the role's turn, or its episode is over."""
        while self.game.agents:
            role = self.game.agent_selection
            observation, reward, over, cut, info = self.game.last()
            shown = self.seats[role].see(observation, info)
            if role == self.agent:
                self._shown = shown
                total = self._reward if self._sums else reward
                return shown, float(total), bool(over), bool(cut), info
            self._step(None if over or cut else self.seats[role].act())
        return self._shown, self._reward, True, False, {}  # it left without a last turn

    @property
    def joint(self) -> dict[str, NDArray[np.float32]]:
        """What every agent sees now, or saw last, as a flat row."""
        if self.turns:
            for role in self.game.agents:
                observation = self.game.observe(role)
                shown = observation[_SHOWN] if self.seats[role].masked else observation
                spaces.assign(self.seats[role].observations, 0, shown)
        return {role: seat.flat[0] for role, seat in self.seats.items()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Tell which moves of the role are legal, as MaskablePPO asks."""
        return self._mine.action_masks()

    def state(self) -> Any:
        """Give the game's own joint state."""
        return self.game.state()

    def render(self) -> Any:
        """Draw the game."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()
