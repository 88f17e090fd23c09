"""Episodes played again: those that are kept, bit for bit, and policies on seeds of others.

An episode follows from its seed and its policy alone, so a store need not keep what was done in it.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.options import CollectOptions, Features
from pivec.parallel import Tell
from pivec.policies import (
    IMPORTABLE,
    NamedPolicy,
    PolicyInfo,
    UniformPolicy,
    name_policies,
)
from pivec.rollouts import (
    ENVIRONMENT,
    GAME,
    ID,
    Environment,
    Episode,
    Probe,
    Quota,
    bind,
    close,
    environment_of,
    failure,
    feature_rows,
    features_to_json,
    find_features_again,
    n_inputs,
    play_here,
)
from pivec.rollouts import observations as spaces
from pivec.states import PolicyRecord, Store, is_recorded

if TYPE_CHECKING:
    from pivec.explanations.folder import ComparisonFolder

# -----------------------------------------------------------------------------
# What is filmed: an episode from its seed. Nothing heavy, since processes that draw import it.


class CannotReplay(PivecError):
    """An episode cannot be played again, or not as it was; one sentence says why."""


@dataclass(frozen=True)
class Take:
    """An episode from its seed: what was done, and all the states that came of it.

    Attributes
    ----------
    label, fingerprint : str
        Of the policy.
    seed : int
        Of the episode.
    actions : array
        A row a step.
    states : (n_steps + 1, n_features) float32 array
        As a store keeps them, but not thinned.
    episode : int or None
        Its number in the store; None of a seed that the policy did not play there.
    seated : tuple or None
        The policy, and whether it takes its likeliest actions, for games of several agents.
    """

    label: str
    fingerprint: str
    seed: int
    actions: NDArray[Any]
    states: NDArray[np.float32]
    episode: int | None = None
    seated: tuple[Any, bool] | None = None

    @property
    def last(self) -> int:
        """The last step, in which the terminal state is seen."""
        return len(self.actions)

    def until(self, step: int) -> Take:
        """Cut off what comes after a step."""
        return replace(self, actions=self.actions[:step], states=self.states[: step + 1])


@dataclass(frozen=True)
class Scene:
    """A part of an episode, step ``first`` to ``last``, and a caption for each of its steps."""

    take: Take
    first: int
    last: int
    captions: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= self.take.last:
            raise UsageError(
                f"a scene must be within the steps 0 to {self.take.last} of its episode, but is "
                f"{self.first} to {self.last}"
            )
        n = self.last - self.first + 1
        if self.captions is not None and len(self.captions) != n:
            raise UsageError(f"a scene of {n} steps needs {n} captions, not {len(self.captions)}")

    @property
    def ends(self) -> bool:
        """Whether the episode is over then."""
        return self.last == self.take.last


# -----------------------------------------------------------------------------
# Who acted: a policy found again by what its states' store tells of it.


_NAME = "name the policy with --policies (from Python policies=)"
_KEEP = "collect with --actions, which keeps what was done"


def find_again(
    info: PolicyInfo,
    record: PolicyRecord | None,
    given: Mapping[str, NamedPolicy],
    folder: Path,
    options: CollectOptions,
) -> NamedPolicy:
    """Find the policy that ``info`` is about: kept, given by the user, or in its file.

    ``given`` has policies by their fingerprints. A folder's files are trusted as little as a
    policy's: what would import a module needs ``options.trust``.
    """
    try:
        kept = None if record is None else record.read_policy()
        if kept is not None:
            return NamedPolicy(kept, info)
        if info.fingerprint and info.fingerprint in given:
            return NamedPolicy(given[info.fingerprint].policy, info)
        if info.source == "random":
            return NamedPolicy(UniformPolicy(), info)
        if is_recorded(info.source):
            raise CannotReplay(
                f"{info.label} was recorded elsewhere ({info.source}), so how it acts is not known"
            )
        return NamedPolicy(_read(info, folder, options).policy, info)
    except CannotReplay:
        raise
    except PivecError as error:
        raise CannotReplay(f"{info.label} cannot act again: {error}") from error


def _read(info: PolicyInfo, folder: Path, options: CollectOptions) -> NamedPolicy:
    """Load a policy from where it came from; it must be the very same."""
    source, file = info.source, _file(info.source, folder)
    again = f"{info.label} cannot act again, since"
    if file is None and not IMPORTABLE.fullmatch(source):
        expected = f"its file {source} is not there" if source else "it is not known where it is"
        raise CannotReplay(f"{again} {expected}: {_NAME}, or {_KEEP}")
    if file is None and not options.trust:
        raise CannotReplay(
            f"{again} it is the Python object {source}: {_NAME}, allow importing it with --trust, "
            f"or {_KEEP}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PivecWarning)  # said when it was collected
        named, *_ = name_policies([file or source], options.trust, options.without_normaliser)
    if named.info.fingerprint != info.fingerprint:
        raise CannotReplay(
            f"{again} {file or source} has changed since its states were collected: {_NAME} as it "
            "was then, or compare anew"
        )
    return named


def _file(source: str, folder: Path) -> Path | None:
    """Find a file, named from the current folder, or from one that the results are below."""
    here = Path(os.path.expanduser(source))
    places = [here, *(above / source for above in folder.resolve().parents)]
    # os.path, unlike a Path, copes with names that no file can have.
    return next((place for place in places if os.path.isfile(place)), None)


# -----------------------------------------------------------------------------
# Drawing: an episode is stepped through again, and every state must be the one that is kept.
#
# This runs in processes of its own, which import nothing heavy.


WIDTH = 320  # of a picture, in points
_WIDE_ENOUGH = 240
_LEAST = 160  # smaller ones are drawn larger
_QUALITY = 80

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Studio:
    """What episodes are drawn with."""

    world: Environment
    view: Features | None
    rate: float = 30.0  # pictures a second, as the environment would be shown


Files = dict[Path, bytes]  # what was drawn, by where it belongs
Draw = Callable[[Studio, Any], Files]


@dataclass(frozen=True, eq=False)
class Job:
    """An episode or several to be drawn: a function that does it, and what of."""

    studio: Studio
    draw: Draw
    what: Any

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield "the environment", self.studio.world
        yield "features=", self.studio.view


def work(job: Job, _tell: Tell) -> Files | str:
    """Draw, or say why not; in a process that was started for this."""
    # With no screen attached; what the user chose stays.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    return attempt(job)


def attempt(job: Job) -> Files | str:
    """Draw, or say why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that draw
            warnings.simplefilter("default", PivecWarning)
            return job.draw(job.studio, job.what)
    except PivecError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        return f"{job.studio.world.name} cannot be filmed: {type(error).__name__}: {error}"


def pictures(
    world: Environment, view: Features | None, take: Take, steps: Collection[int]
) -> Iterator[tuple[int, Pixels]]:
    """Step through an episode; yield step and picture for each wanted step."""
    env = _rendering(world)
    try:
        if take.seated is not None:
            env.unwrapped.set_agent_policy(take.seated[0].policy, take.seated[1])
        room = spaces.empty_batch(env.observation_space, 1)
        for step in range(max(steps) + 1):
            try:
                if step == 0:
                    observation, info = env.reset(seed=take.seed)
                else:
                    action = take.actions[step - 1]
                    observation, *_, info = env.step(action.item() if action.ndim == 0 else action)
            except (Exception, SystemExit) as error:
                raise failure(world.name, f"step {step} while it was filmed", error) from error
            spaces.assign(room, 0, observation)
            seen = (
                spaces.flatten(env.observation_space, room)
                if view is None
                else feature_rows(view, room, [info], [env])
            )
            if step == 0 and (late := getattr(view, "late_columns", None)):
                seen[0, late] = take.states[0, late]  # what is not known yet
            if seen[0].tobytes() != take.states[step].tobytes():
                raise CannotReplay(
                    f"step {step} of {take.label} (seed {take.seed}) shows another state when it "
                    "is drawn: the environment does not repeat itself from a seed, or has changed"
                )
            if step in steps:
                yield step, _frame(env, world.name)
    finally:
        close(env, world.name)


def _rendering(world: Environment) -> Any:
    try:
        return world.make(render_mode="rgb_array")
    except EnvironmentFailure as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        raise UsageError(
            f"the function that makes the environment must take render_mode to be filmed: {error}"
        ) from error


def _frame(env: Any, name: str) -> Pixels:
    try:
        frame = env.render()
    except (Exception, SystemExit) as error:
        raise failure(name, "render()", error) from error
    is_picture = isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] in (3, 4)
    if not is_picture or frame.dtype.kind not in "iu" or not frame.size:
        raise CannotReplay(f"{name} gives no pictures with render_mode=rgb_array")
    return np.ascontiguousarray(frame[..., :3], dtype=np.uint8)


def sized(frame: Pixels, width: int = WIDTH) -> Any:
    """Make a picture of a frame, not wider than ``width`` and not tiny."""
    from PIL import Image

    picture = Image.fromarray(frame)
    times = -(-picture.width // width)
    if times > 1 and picture.width // times >= _WIDE_ENOUGH:
        return picture.reduce(times)  # several times as fast as other sizes
    if times > 1:
        height = max(1, round(picture.height * width / picture.width))
        return picture.resize((width, height), Image.Resampling.BILINEAR)
    times = -(-_LEAST // picture.width)
    size = times * picture.width, times * picture.height
    return picture if times == 1 else picture.resize(size, Image.Resampling.NEAREST)


def draw_stills(studio: Studio, job: tuple[Take, Mapping[int, Path]]) -> Files:
    """Draw steps of an episode."""
    take, files = job
    drawn = {}
    for step, frame in pictures(studio.world, studio.view, take, files):
        content = io.BytesIO()
        sized(frame).save(content, format="WEBP", quality=_QUALITY, method=4)
        drawn[files[step]] = content.getvalue()
    return drawn


_MOST_STEPS = 100_000  # of an episode on a new seed: what limits it may be a stranger's


class Replayer:
    """Plays episodes of a comparison again.

    Where the actions come from: the store, if they are kept; the policy in the store; ``policies``;
    the policy's file, as the store names it.

    Parameters
    ----------
    findings : ComparisonFolder or Store
        The states, and how they were collected.
    env : str, callable or None
        The environment, where the store does not tell it, as of one that a function makes.
    policies : as in `pivec.collect`, optional
        Those that acted, where the store does not tell where they are.
    options : CollectOptions
        Arguments of the environment, ``wrappers``, ``imports``, ``features`` and ``trust``; all
        else is as it was when the states were collected.

    Examples
    --------
    >>> import tempfile, pivec
    >>> where = tempfile.mkdtemp()
    >>> data = pivec.collect("CartPole-v1", "random", episodes=3, store=where)
    >>> take = Replayer(Store(where)).stored("random", 2)
    >>> bool((take.states == list(data.episodes())[2]).all()), len(take.actions) == take.last
    (True, True)
    >>> Replayer(Store(where)).on_seed("random", 5).states.shape[1]
    4
    """

    def __init__(
        self,
        findings: ComparisonFolder | Store,
        env: Any = None,
        policies: Any = None,
        options: CollectOptions | None = None,
    ) -> None:
        self._env, self._options = env, options or CollectOptions()
        if isinstance(findings, Store):
            self._folder, self._collected = Path(findings.path), dict(findings.settings)
            data = findings.load() if len(findings) else None
            infos: Sequence[PolicyInfo] = () if data is None else data.policies
        else:
            self._folder, self._collected = findings.folder, dict(findings.space.collected)
            data, infos = findings.data, findings.policies
        self._records = {} if data is None else {r.info.label: r for r in data.records}
        self._infos = {info.label: info for info in infos}
        # The states are those of whom the store names: a label may have changed hands since.
        self._infos |= {label: record.info for label, record in self._records.items()}
        self._given: dict[str, NamedPolicy] = {}
        if policies is not None:
            trust, without = self._options.trust, self._options.without_normaliser
            named = name_policies(policies, trust, without)
            self._given = {policy.info.fingerprint: policy for policy in named}
        self._bound: dict[str, NamedPolicy] = {}

    def stored(self, label: str, episode: int) -> Take:
        """Play an episode that is kept again; what differs by a bit is a `CannotReplay`."""
        return _single(self.stored_many([(label, episode)]))

    def stored_many(self, wanted: Sequence[tuple[str, int]]) -> list[Take | CannotReplay]:
        """Play many (label, number of the episode) again; those that fail are returned as such."""
        kept = [_attempt(self._kept, label, number) for label, number in wanted]
        missing = {
            place: mine
            for place, mine in enumerate(kept)
            if isinstance(mine, _Kept) and (mine.every > 1 or mine.episode.actions is None)
        }
        # No more than was kept: what goes on for longer is not the same.
        most = max((k.every * len(k.episode.states) for k in missing.values()), default=1)
        jobs = [(wanted[place][0], mine.episode.seed) for place, mine in missing.items()]
        played = dict(zip(missing, self._play(jobs, most), strict=True))
        result: list[Take | CannotReplay] = []
        for place, (label, number) in enumerate(wanted):
            mine = kept[place]
            if isinstance(mine, _Kept):
                again = played.get(place, mine.episode)
                mine = _attempt(self._checked, label, number, mine, again)
            result.append(mine)
        return result

    def on_seed(self, label: str, seed: int) -> Take:
        """Let a policy play the episode of any seed, as of another policy's episode.

        In Gymnasium, and for at most 100 000 steps.
        """
        return _single(self.on_seeds([(label, seed)]))

    def on_seeds(self, wanted: Sequence[tuple[str, int]]) -> list[Take | CannotReplay]:
        """Let policies play many (label, seed); those that fail are returned as such."""
        played = self._play(wanted, _MOST_STEPS)
        return [
            again if isinstance(again, CannotReplay) else self._take(label, again, None)
            for (label, _), again in zip(wanted, played, strict=True)
        ]

    # ---- what the states depend on ----

    @cached_property
    def environment(self) -> Environment:
        """The environment that the states were collected in."""
        telling = PolicyInfo("", source=str(self._folder), metadata=self._collected)
        name = str(self._collected.get(ENVIRONMENT, ""))
        if self._env is None and name and ":" not in name and not ID.search(name):
            raise CannotReplay(
                f"the states were collected in an environment that the function {name} makes: pass "
                "it from Python (env=)"
            )
        with _as_reason("the environment is not known again"):
            return environment_of(self._env, [telling], self._options)

    @cached_property
    def studio(self) -> Studio:
        """What episodes are drawn with: the environment, and what makes states of what it shows."""
        kept, world = self._collected.get("features"), self.environment
        with _as_reason("what makes a state of an observation is not known again"):
            features = find_features_again(
                self._options.features,
                kept,
                trust=self._options.trust,
                policies=[*self._given.values()],
                find_policy=self._reference,
            )
        with _as_reason(f"{world.name} cannot be made again"):
            probe = Probe.of(world, features)
        view, rate = probe.view, probe.metadata.get("render_fps")
        if (found := features_to_json(view)) != kept:
            raise CannotReplay(
                f"the states of {self._folder} have features = {kept}, but here {found}: give the "
                "same with --features (in Python features=)"
            )
        world = replace(world, one_by_one=n_inputs(view) > 1)
        return Studio(world, view, float(rate) if rate and 0 < rate < np.inf else 30.0)

    def problem(self) -> str:
        """Say why nothing can be drawn; empty if it can."""
        reason = _attempt(lambda: self.studio)
        return str(reason) if isinstance(reason, CannotReplay) else ""

    # ---- playing ----

    def _kept(self, label: str, number: int) -> _Kept:
        if self._collected.get("backend") == "envpool":
            raise CannotReplay(
                "the states were collected with EnvPool, whose episodes Gymnasium does not repeat "
                "bit for bit: collect with --backend gymnasium"
            )
        if label not in self._records:
            raise CannotReplay(f"{self._folder} holds no states of {label}, so none can be shown")
        record = self._records[label]
        if not 0 <= number < len(record.episodes):
            raise CannotReplay(
                f"{label} has no episode {number}: expected 0 to {len(record.episodes) - 1}"
            )
        if not 1 <= record.every <= _MOST_STEPS:
            raise CannotReplay(f"{label} says that every {record.every}th state is kept")
        (episode,) = record.as_episodes([number])
        if episode.seed < 0:
            raise CannotReplay(
                f"{label} was recorded elsewhere, and the seed of its episode {number} is not known"
            )
        return _Kept(episode, record.every)

    def _reference(self, source: str, fingerprint: str) -> NamedPolicy:
        """Find the policy again whose eyes the states were seen with."""
        info = next(
            (info for info in self._infos.values() if info.fingerprint == fingerprint),
            PolicyInfo(source, source=source, fingerprint=fingerprint),
        )
        record = self._records.get(info.label)
        return find_again(info, record, self._given, self._folder, self._options)

    def _policy(self, label: str) -> NamedPolicy:
        if label not in self._bound:
            if label not in self._infos:
                raise CannotReplay(f"{self._folder} has no policy {label}")
            record: PolicyRecord | None = self._records.get(label)
            info, options = self._infos[label], self._options
            named = find_again(info, record, self._given, self._folder, options)
            (self._bound[label],) = bind(self.environment, [named])
        return self._bound[label]

    def _play(self, wanted: Sequence[tuple[str, int]], most: int) -> list[Episode | CannotReplay]:
        """Let policies play (label, seed), all side by side; where that fails by themselves."""
        results: dict[tuple[str, int], Episode | CannotReplay] = {}
        seeds: dict[str, list[int]] = {}
        for label, seed in dict.fromkeys(wanted):
            policy = _attempt(self._policy, label)
            if isinstance(policy, CannotReplay):
                results[label, seed] = policy
            else:
                seeds.setdefault(label, []).append(seed)
        together = _attempt(self._play_all, seeds, most) if seeds else {}
        if isinstance(together, CannotReplay):
            for label, mine in seeds.items():
                for seed in mine:
                    alone = _attempt(self._play_all, {label: [seed]}, most)
                    failed = isinstance(alone, CannotReplay)
                    results[label, seed] = alone if failed else alone[label, seed]
        else:
            results |= together
        return [results[pair] for pair in wanted]

    def _play_all(self, seeds: dict[str, list[int]], most: int) -> dict[tuple[str, int], Episode]:
        collected = self._collected
        limit = collected.get("max_steps")
        most = min(most, limit) if isinstance(limit, int) and limit > 0 else most
        options = CollectOptions(
            deterministic=bool(collected.get("deterministic")),
            max_steps=most,
            actions=True,
            features=self.studio.view,
            backend="gymnasium",
        )
        policies = [self._policy(label) for label in seeds]
        quotas = [Quota(len(mine), seeds=np.array(mine)) for mine in seeds.values()]
        return {
            (played.named.info.label, episode.seed): episode
            for played in play_here(self.studio.world, policies, options, quotas=quotas)
            for episode in played.episodes
        }

    def _checked(self, label: str, number: int, kept: _Kept, again: Any) -> Take:
        if isinstance(again, CannotReplay):
            raise again
        thin = np.concatenate([again.states[: -1 : kept.every], again.states[-1:]])
        stored = kept.episode.states
        if again is not kept.episode and thin.tobytes() != stored.tobytes():
            pairs = zip(thin, stored, strict=False)
            same = [here.tobytes() == there.tobytes() for here, there in pairs]
            step = kept.every * [*same, False].index(False)
            raise CannotReplay(
                f"episode {number} of {label} is another when it is played again, from about step "
                f"{step} on: the environment does not repeat itself from a seed, or has changed"
            )
        return self._take(label, again, number)

    def _take(self, label: str, episode: Episode, number: int | None) -> Take:
        actions = episode.actions
        if actions is None:
            raise CannotReplay(f"the actions of {label} are not known")
        info = self._infos[label]
        seated = None
        # Partners in a game may be the policy itself.
        if str(self._collected.get(ENVIRONMENT, "")).startswith(GAME):
            named = _attempt(self._policy, label)
            if not isinstance(named, CannotReplay):
                seated = named, bool(self._collected.get("deterministic"))
        return Take(label, info.identity, episode.seed, actions, episode.states, number, seated)


@dataclass(frozen=True)
class _Kept:
    """An episode as the store has it, thinned to every k-th state."""

    episode: Episode
    every: int


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function gives, or why it does not."""
    try:
        return function(*arguments)
    except CannotReplay as error:
        return error
    except PivecError as error:
        return CannotReplay(str(error))


@contextmanager
def _as_reason(what: str) -> Any:
    try:
        yield
    except CannotReplay:
        raise
    except PivecError as error:
        raise CannotReplay(f"{what}: {error}") from error


def _single(results: list[Take | CannotReplay]) -> Take:
    (result,) = results
    if isinstance(result, CannotReplay):
        raise result
    return result
