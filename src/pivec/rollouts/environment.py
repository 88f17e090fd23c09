"""Environments by Gymnasium id, ``module:function`` or factory, with arguments and wrappers.

`environment_of` combines what the user asks for with what the policies' files say about their
training environment; the user has precedence.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces.utils import flatdim

from pivec.arguments import pairs
from pivec.errors import (
    EnvironmentFailure,
    PivecError,
    PivecWarning,
    UnknownEnvironment,
    UsageError,
    did_you_mean,
)
from pivec.options import CollectOptions, Wrapper
from pivec.policies import (
    RUNS_IN,
    NamedPolicy,
    Policy,
    PolicyInfo,
    fingerprint_of,
    first_names,
    import_here,
    import_object,
    user_code,
)

Made = TypeVar("Made")

ATARI = "pivec.rollouts.atari:Atari"
GAME = "pettingzoo:"  # prefix of the names of multi-agent environments, see `pivec.rollouts.games`
ID = re.compile(r"-v\d+$")  # the end of Gymnasium ids; names of functions have none
BACKENDS = ("gymnasium", "envpool")
ENVIRONMENT, ARGUMENTS, WRAPPERS, IMPORTS = "environment", "arguments", "wrappers", "imports"
_MOST_FITTING = 4  # a policy that fits more environments than these says nothing

# Gymnasium has no plugins: packages register their environments when they are imported. By the
# beginnings of ids: modules to import, and what to install for the first of them.
REGISTERED_BY = {
    r"ALE/|\w+(-ram)?(NoFrameskip|Deterministic)-v[04]": ("ale_py", "pivec[atari]"),
    "MiniGrid-|BabyAI-": ("minigrid", "minigrid"),
    "MiniWorld-": ("miniworld", "miniworld"),
    "MiniHack-": ("minihack", "minihack"),
    "NetHack": ("nle", "nle"),
    "Fetch(Reach|Push|Slide|PickAndPlace)|Hand(Reach|Manipulate)|AdroitHand|FrankaKitchen"
    "|(Ant|Point)Maze_": ("gymnasium_robotics", "gymnasium-robotics"),
    "(highway|merge|roundabout|parking|intersection|racetrack|exit|two-way|u-turn|lane-keeping)-": (
        "highway_env",
        "highway-env",
    ),
    "Panda(Flip|PickAndPlace|Push|Reach|Slide|Stack)": ("panda_gym", "panda-gym"),
    r"\w+BulletEnv-": ("pybullet_envs_gymnasium", "pybullet-envs-gymnasium"),
    "mo-|deep-sea-treasure|minecart-|fruit-tree|resource-gathering|breakable-bottles|fishwood-"
    "|four-room-|water-reservoir-": ("mo_gymnasium", "mo-gymnasium"),
    "Meta-World/": ("metaworld", "metaworld"),
    "FlappyBird-": ("flappy_bird_gymnasium", "flappy-bird-gymnasium"),
    "dm_control/": ("shimmy", "shimmy[dm-control]"),
    "bsuite/": ("shimmy", "shimmy[bsuite]"),
    # The package called procgen has no builds for current versions of Python.
    "(procgen:)?procgen-": ("procgen pivec.rollouts.atari", "procgen-mirror"),
    "Vizdoom": ("vizdoom.gymnasium_wrapper", "vizdoom"),
    "PyFlyt/": ("PyFlyt.gym_envs", "pyflyt"),
    "sumo-rl-": ("sumo_rl", "sumo-rl"),
    "gym_aloha/": ("gym_aloha", "gym-aloha"),
    "gym_pusht/": ("gym_pusht", "gym-pusht"),
    "gym_xarm/": ("gym_xarm", "gym-xarm"),
    "popgym-": ("popgym", "popgym"),
    "tetris_gymnasium/": ("tetris_gymnasium.envs", "tetris-gymnasium"),
}

# Wrappers that files may name without --trust: they change observations and actions only.
KNOWN_WRAPPERS = re.compile(
    r"(gymnasium\.wrappers(\.\w+)?|stable_baselines3\.common\.atari_wrappers"
    r"|pivec\.rollouts\.atari|sb3_contrib\.common\.wrappers(\.\w+)?|rl_zoo3\.wrappers"
    r"|minigrid\.wrappers)"
    r":(?!RecordVideo|HumanRendering|RenderCollection)\w+"
)


def split_arguments(spec: str) -> tuple[str, dict[str, Any]]:
    """Separate ``name{json}`` into the name and the arguments.

    Examples
    --------
    >>> split_arguments('gymnasium.wrappers:ResizeObservation{"shape": [84, 84]}')
    ('gymnasium.wrappers:ResizeObservation', {'shape': [84, 84]})
    """
    name, brace, rest = spec.partition("{")
    if not brace:
        return spec, {}
    try:
        return name, json.loads(brace + rest)
    except ValueError as error:
        raise UsageError(
            f"the arguments after the name in {spec!r} must be a JSON object: {error}"
        ) from error


def callable_to_json(thing: Any) -> dict[str, Any]:
    """Describe a Python object by its own ``to_json``, or else by its name."""
    if hasattr(thing, "to_json"):
        return dict(thing.to_json())
    return {"kind": "function", "name": getattr(thing, "__qualname__", None) or repr(thing)}


# ---- wrappers ----


def wrapper_to_json(wrapper: Wrapper) -> dict[str, Any]:
    """Describe a wrapper as a JSON object."""
    if not isinstance(wrapper, str):
        return callable_to_json(wrapper)
    name, arguments = split_arguments(wrapper)
    return {"kind": "import", "name": name, "arguments": arguments}


def wrapper_from_json(value: Any) -> str:
    """Read what `wrapper_to_json` gives, or the same as text: ``module:Class{json}``."""
    match value:
        case str():
            return value
        case {"kind": "import", "name": str(name), "arguments": dict(arguments)}:
            return f"{name}{json.dumps(arguments)}" if arguments else name
        case {"kind": "function", "name": str(name)}:
            raise UsageError(
                f"only the name of the wrapper {name}, a Python function, is known: give all "
                "wrappers with --wrappers (in Python: wrappers=)"
            )
    raise UsageError(f"expected a wrapper as module:Class, but got {value!r}")


def _wrap(env: Any, wrapper: Wrapper) -> Any:
    wrap, arguments = wrapper, dict[str, Any]()
    if isinstance(wrap, str):
        name, arguments = split_arguments(wrap)
        wrap = import_object(name, "the wrapper")
        # JSON has no tuples, and Gymnasium requires them for shapes.
        arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    with user_code(f"the wrapper {wrapper} cannot be applied to {env}"):
        return wrap(env, **arguments)


def _check_wrappers(wrappers: Sequence[str], infos: Sequence[PolicyInfo], trust: bool) -> None:
    """Refuse wrappers that files may not name, or that are not installed."""
    for wrapper in wrappers:
        name = split_arguments(wrapper)[0]
        package = name.partition(".")[0]
        remedy = ""
        if not trust and not KNOWN_WRAPPERS.fullmatch(name):
            remedy = "which a file may not ask for without --trust"
        elif find_spec(package) is None:
            remedy = f"which needs: pip install {package.replace('_', '-')}"
        if remedy:
            raise UsageError(
                f"{infos[0].source} was trained with the wrapper {name}, {remedy}; or give all "
                "wrappers with --wrappers (in Python: wrappers=)"
            )


# ---- environments ----


def registrars(name: str) -> list[str]:
    """Name the modules that register an environment which Gymnasium does not know yet."""
    for ids, (modules, package) in REGISTERED_BY.items():
        if name not in gymnasium.registry and re.match(ids, name):
            if find_spec(re.split(r"\W", modules)[0]) is None:
                raise UsageError(
                    f'{name} belongs to a package that is not installed: pip install "{package}"'
                )
            return modules.split()
    return []


@dataclass(frozen=True)
class Environment:
    """A way to make one environment as often as needed.

    By the Gymnasium id ``name`` (``CartPole-v1``, ``module:Name-v0``), by the name of a function or
    class that makes one (``module:make``), or by ``factory``. The first of the ``wrappers`` is
    innermost: ``module:Class``, with arguments ``module:Class{"shape": [84, 84]}``, or a function
    from an environment to an environment.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[[], gymnasium.Env[Any, Any]] | None = None
    wrappers: tuple[Wrapper, ...] = ()
    imports: tuple[str, ...] = ()  # modules that register environments
    one_by_one: bool = False  # because features read more than observations
    retries: int = field(default=2, repr=False, compare=False)  # see `retried`
    # The policies of the other agents in a multi-agent environment, see `pivec.rollouts.games`.
    partners: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    # How the id is registered, for other processes.
    registered: EnvSpec | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Include the registration, which a script may have made."""
        known = gymnasium.registry.get(self.name, self.registered)
        try:
            pickle.dumps(known)
        except Exception:  # whatever pickling the user's classes raises; imports may register it
            known = None
        return self.__dict__ | {"registered": known}

    @classmethod
    def of(
        cls,
        env: str | Environment | Callable[[], gymnasium.Env[Any, Any]],
        arguments: Mapping[str, Any] | None = None,
        wrappers: Sequence[Wrapper] = (),
        imports: Sequence[str] = (),
    ) -> Environment:
        """Accept what users pass as ``env``."""
        given = dict(arguments or {})
        if isinstance(env, str):
            if not env.strip():
                raise UsageError("env is empty: expected a Gymnasium id such as CartPole-v1")
            name, inside = split_arguments(env)
            env, given = cls(name), {**inside, **given}
        elif not isinstance(env, Environment):
            if isinstance(env, gymnasium.Env) or not callable(env):
                raise UsageError(
                    "env must be a Gymnasium id or a function that makes an environment, but is "
                    f"{type(env).__name__}: pass a function, since several are needed in parallel"
                )
            env = cls(getattr(env, "__qualname__", type(env).__name__), factory=env)
        return replace(
            env,
            arguments={**env.arguments, **given},
            wrappers=(*env.wrappers, *wrappers),
            imports=(*env.imports, *imports),
        )

    def to_json(self) -> dict[str, Any]:
        """Describe it as a JSON object, as stores and runs keep it."""
        return {
            ENVIRONMENT: self.name,
            ARGUMENTS: dict(self.arguments),
            WRAPPERS: [wrapper_to_json(wrapper) for wrapper in self.wrappers],
            IMPORTS: list(self.imports),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Environment:
        """Read what `to_json` gives."""
        wrappers = [wrapper_from_json(wrapper) for wrapper in content.get(WRAPPERS) or ()]
        name = str(content.get(ENVIRONMENT, ""))
        return cls.of(name, content.get(ARGUMENTS), wrappers, content.get(IMPORTS) or ())

    def make(self, **more: Any) -> gymnasium.Env[Any, Any]:
        """Make one environment; ``more`` are further arguments for `gymnasium.make`."""
        self._register()
        try:
            env = self._make({**self.arguments, **more})
        except PivecError:
            raise
        except (Exception, SystemExit) as error:
            raise failure(self.name, "making it", error) from error
        for wrapper in self.wrappers:
            env = _wrap(env, wrapper)
        return env

    @property
    def spec(self) -> EnvSpec | None:
        """Gymnasium's specification; None for a factory and for unknown ids."""
        self._register()
        return None if self.factory is not None else gymnasium.registry.get(self.name)

    def _register(self) -> None:
        known = [] if self.factory is not None or self.imports else registrars(self.name)
        own = self.name.removeprefix(GAME).rpartition(":")[0]  # of module:object
        for module in filter(None, (*known, *self.imports, own)):
            with user_code(f"the module {module!r} cannot be imported"):
                import_here(module)
        if self.registered is not None:
            gymnasium.registry[self.name] = self.registered

    def _make(self, arguments: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
        make: Any = self.factory or self._make_registered
        if self.name.startswith(GAME):
            from pivec.rollouts.games import make_agent_env  # which needs this module

            make = partial(make_agent_env, self.name, self.factory, self.partners)
        elif self.factory is None and ":" in self.name and not ID.search(self.name):
            make = import_object(self.name, "the environment")
        env: Any = make(**arguments)
        if not isinstance(env, gymnasium.Env):
            kind = f"{type(env).__module__}.{type(env).__name__}"
            hint = ": name multi-agent environments as pettingzoo:..., with --agent (agent=)"
            hint *= hasattr(env, "possible_agents")
            raise UsageError(f"{self.name} must make a gymnasium.Env, but made {kind}{hint}")
        return env

    def _make_registered(self, **arguments: Any) -> gymnasium.Env[Any, Any]:
        try:
            return gymnasium.make(self.name, **{"disable_env_checker": True, **arguments})
        except gymnasium.error.DependencyNotInstalled as error:
            raise PivecError(
                f"{self.name} needs a package that is not installed: {error}"
            ) from error
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            namespace = self.name.rpartition("/")[0]
            known = [name for name in gymnasium.registry if name.rpartition("/")[0] == namespace]
            hint = did_you_mean(self.name, known, 3) or (
                ": expected the id of a registered Gymnasium environment such as CartPole-v1, "
                "module:Name-v0, or module:function that makes one; name a module that registers "
                f"it with --imports (in Python: imports=) ({str(error).strip()})"
            )
            raise UsageError(f"there is no environment {self.name!r}{hint}") from error
        except TypeError as error:
            if not arguments:
                raise
            raise UsageError(
                f"{self.name} does not take the arguments {arguments}: {error}"
            ) from error


def failure(name: str, what: str, error: BaseException) -> EnvironmentFailure:
    """Error that names the environment that raised, and what was done with it."""
    return EnvironmentFailure(f"{name} raised {type(error).__name__} in {what}: {error}")


def retried(environment: Environment, attempt: Callable[[], Made]) -> Made:
    """Call a function, and again after an `EnvironmentFailure`, as often as allowed."""
    for _ in range(environment.retries):
        with contextlib.suppress(EnvironmentFailure):
            return attempt()
    return attempt()


def close(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Close an environment; exceptions become warnings, since its states are not affected."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        warnings.warn(str(failure(name, "close()", error)), PivecWarning, stacklevel=2)


# ---- which environment: what the user says and what the policies' files say ----


def environment_of(
    env: str | Environment | Callable[[], Any] | None,
    policies: Sequence[PolicyInfo],
    options: CollectOptions | None = None,
    acting: Sequence[Policy] = (),
) -> Environment:
    """Combine what the user asks for with the metadata of the policies' files.

    Metadata may hold ``environment``, ``arguments``, ``wrappers`` and ``imports``, as
    `Environment.to_json` writes them. Without ``env`` the files decide. The user's arguments are
    added to theirs and have precedence; the user's wrappers and imports replace theirs. Files that
    contradict each other, or that ask for something they may not, are refused; a warning names
    those trained in another environment than ``env``. If nobody names an environment, the error
    says which ones the ``acting`` policies fit.
    """
    options = options or CollectOptions()
    arguments, wrappers, imports = options.env_kwargs, options.wrappers, options.imports
    if env is not None and not isinstance(env, str):
        if options.atari:
            arguments, wrapper = _atari(Environment.of(env, arguments), policies, options)
            wrappers = (wrapper, *wrappers)
        made = Environment.of(env, arguments, wrappers, imports)
        return _with_partners(replace(made, retries=options.retries), options)
    env, inside = (None, {}) if env is None else split_arguments(env)
    trained = [info for info in policies if isinstance(info.metadata.get(ENVIRONMENT), str)]
    name = _named_in_files(trained, options.trust, acting) if env is None else env
    if options.atari:
        plain = Environment.of(name, {**inside, **(arguments or {})}, (), imports)
        arguments, wrapper = _atari(plain, policies, options)
        wrappers = (wrapper, *wrappers)
    here, elsewhere = [], []
    for info in trained:
        theirs = info.metadata[ENVIRONMENT]
        # What precedes a colon only says who registers it.
        if theirs.rpartition(":")[2] == name.rpartition(":")[2]:
            here.append(info)
        elif ID.search(theirs):
            elsewhere.append(info)
    if elsewhere:
        first = elsewhere[0]
        warnings.warn(
            f"{len(elsewhere)} policies (first: {first.source}) were trained in "
            f"{first.metadata[ENVIRONMENT]}, but run in {name}",
            PivecWarning,
            stacklevel=3,
        )
    given = {**inside, **(arguments or {})}
    agreed = _agreed(here, ARGUMENTS, "--env-kwargs", lambda value: {**dict(value or {}), **given})
    if not wrappers:
        wrappers = _agreed(
            here, WRAPPERS, "--wrappers", lambda value: list(map(wrapper_from_json, value or ()))
        )
        _check_wrappers(wrappers, here, options.trust)
    if not imports:
        listed = [info.metadata.get(IMPORTS) for info in here]
        modules = [m for some in listed if isinstance(some, list) for m in some]
        imports = list(dict.fromkeys(m for m in modules if isinstance(m, str)))
        if imports and not options.trust:
            if ":" not in name and name not in gymnasium.registry:
                raise UsageError(
                    f"{here[0].source} says that {imports[0]} registers its environment: if you "
                    f"trust that module, pass --imports {imports[0]} (in Python: imports=)"
                )
            imports = []
    made = Environment.of(name, agreed if here else given, wrappers, imports)
    return _with_partners(replace(made, retries=options.retries), options)


# ---- Atari ----

# Wrappers that repeat actions, and the argument that says for how many steps (4 by default).
_REPEATING = {"AtariWrapper": "frame_skip", "AtariPreprocessing": "frame_skip", "Atari": "skip"}
_REPEATING |= {"MaxAndSkipEnv": "skip", "MaxAndSkipObservation": "skip"}
_STEPS = 4  # of a game per action


def _atari(
    game: Environment, policies: Sequence[PolicyInfo], options: CollectOptions
) -> tuple[dict[str, Any], str]:
    """Arguments of a game, and the wrapper, with which policies act as often as in training.

    An action lasts for ``game_skip`` frames (the game's ``frameskip``) times ``skip`` steps.
    """
    spec, per_step, steps = game.spec, game.arguments.get("frameskip"), _STEPS
    if spec is not None and "ale_py" not in str(spec.entry_point):
        raise UsageError(
            f"--atari is for environments of ale-py such as ALE/Pong-v5, but {game.name} is not one"
        )
    usual: Any = spec and spec.kwargs.get("frameskip", 4)  # of the id; a range is random
    choose = "choose with --frame-skip (in Python frame_skip=)"
    trained = {info.source: _trained_frames(info) for info in policies if info.source != "random"}
    known = set(filter(None, trained.values()))
    if (frames := options.frame_skip) is not None:
        # The id's own number where that is what make_atari_env does.
        per_step = per_step or (usual if usual and frames == _STEPS * usual else 1)
        if type(per_step) is not int or frames % per_step:
            raise UsageError(f"--frame-skip {frames} is not a multiple of frameskip={per_step}")
        steps = frames // per_step
    elif per_step is None:
        if len(known) > 1:
            found = [f"{source} with {n[0]} x {n[1]}" for source, n in trained.items() if n]
            raise UsageError(
                f"policies were trained with different frame skips: {first_names(found)}; {choose}"
            )
        per_step, steps = next(iter(known), (1, _STEPS))
        unknown = [source for source, frames in trained.items() if frames is None]
        if unknown and (known or usual != 1):
            more = f" ({_STEPS * usual} with make_atari_env of this id)" * (type(usual) is int)
            warnings.warn(
                f"how often {first_names(unknown)} acted in training is not known: --atari assumes "
                f"every {per_step * steps} frames{more}; {choose}",
                PivecWarning,
                stacklevel=4,
            )
    own = {"skip": steps, "game_skip": per_step}
    changed = {key: n for key, n in own.items() if n != {"skip": _STEPS, "game_skip": 1}[key]}
    wrapper = ATARI + (json.dumps(changed) if changed else "")
    return {**(options.env_kwargs or {}), "frameskip": per_step}, wrapper


def _trained_frames(info: PolicyInfo) -> tuple[int, int] | None:
    """Frames per step of the game and steps per action in training, if the file says so."""
    name, wrappers = info.metadata.get(ENVIRONMENT), info.metadata.get(WRAPPERS)
    if isinstance(name, str) and ":" not in name and isinstance(wrappers, list):
        with contextlib.suppress(UsageError):  # what is not needed here may be invalid
            for kind, arguments in map(split_arguments, map(wrapper_from_json, wrappers)):
                if (key := _REPEATING.get(kind.rpartition(":")[2])) is not None:
                    spec, given = Environment(name).spec, info.metadata.get(ARGUMENTS)
                    own = spec.kwargs if spec else {}
                    game = {**own, **(given if isinstance(given, dict) else {})}.get("frameskip")
                    steps = arguments.get(key, _STEPS)
                    if type(game) is int and type(steps) is int and min(game, steps) > 0:
                        return game, steps
    return None


# ---- policies with an environment of their own ----


def environments_of(
    env: str | Environment | Callable[[], Any] | None,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    stored: Sequence[PolicyInfo] = (),
    *,
    rename: bool = True,
) -> tuple[Environment, list[NamedPolicy], str]:
    """Find the common environment, those of policies that have their own, and the backend.

    An own one is given as for `environment_of`, or as text: ``ENV``, ``ENV,KEY=VALUE,...``, or only
    arguments that differ from the common ones; ``backend=`` is the backend. The fingerprint, and
    thus the seeds, are then those of the policy in its environment. With ``rename``, the label ends
    with what distinguishes the environments; the name of the run always does. If all policies have
    their own, one is the common one, whatever the order of the policies. ``stored`` may say how
    other states were collected.
    """
    plain = [named for named in policies if named.environment is None]
    common = None
    if env is not None or plain or stored or not policies:
        infos = [*stored] or [named.info for named in plain]
        common = environment_of(env, infos, options, [named.policy for named in plain])
        if len(plain) == len(policies):
            return common, plain, options.backend
    # No difference comes from the backend, unless the user says so.
    backend = BACKENDS[0] if options.backend == "auto" else options.backend
    groups: dict[int, list[NamedPolicy]] = {}
    for named in policies:
        if named.environment is not None and not named.info.own_environment:
            groups.setdefault(id(named.environment), []).append(named)
    found = [_own_environment(group, common, options, backend) for group in groups.values()]
    known = [] if common is None else [(common, backend)]
    texts = _distinguishing([*known, *found])[len(known) :]
    placed = dict(zip(groups, zip(found, texts, strict=True), strict=True))
    result = []
    for named in policies:
        if id(named.environment) in placed:
            (made, own_backend), text = placed[id(named.environment)]
            info, where = named.info, {**made.to_json(), "backend": own_backend}
            with user_code(f"arguments of {made.name} must be JSON values"):
                described = json.dumps({**where, IMPORTS: []}, sort_keys=True)
            info = replace(
                info,
                label=f"{info.label}@{text}" if rename else info.label,
                group=info.group and f"{info.group}@{text}",
                metadata={**info.metadata, RUNS_IN: {**where, "fingerprint": info.fingerprint}},
                fingerprint=fingerprint_of(f"{info.identity} in {described}"),
            )
            named = NamedPolicy(named.policy, info, made)  # noqa: PLW2901
        result.append(named)
    own = [named.environment for named in result if named.environment is not None]
    common = common or min(own, key=lambda made: json.dumps(made.to_json(), sort_keys=True))
    return common, result, backend


def _own_environment(
    policies: Sequence[NamedPolicy], common: Environment | None, options: CollectOptions, usual: str
) -> tuple[Environment, str]:
    """The environment of their own that policies share, and its backend."""
    env, own = policies[0].environment, dict[str, Any]()
    if isinstance(env, str):
        env, own = split_arguments(env)
        if not own:
            first, *texts = env.split(",")
            env, texts = ("", [first, *texts]) if "=" in first else (first, texts)
            own = pairs(texts, "POLICY@ENV")
        if not env and not own:
            raise UsageError("expected an environment or KEY=VALUE after POLICY@")
    backend = own.pop("backend") if own.get("backend") in BACKENDS else usual
    if not env and common is not None:
        return replace(common, arguments={**common.arguments, **own}), backend
    infos, acting = zip(*((named.info, named.policy) for named in policies), strict=True)
    options = replace(options, env_kwargs={**(options.env_kwargs or {}), **own})
    return environment_of(env or None, infos, options, acting), backend


def _distinguishing(environments: Sequence[tuple[Environment, str]]) -> list[str]:
    """What distinguishes each of several environments (with backends) from others, as text."""
    parts = [{"": made.name, **made.arguments} for made, _ in environments]
    backends = len({backend for _, backend in environments}) > 1
    texts = []
    for own, (made, backend) in zip(parts, environments, strict=True):
        words = [
            f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"
            for key, value in own.items()
            if not all(key in other and other[key] == value for other in parts)
        ]
        words += [f"backend={backend}"] * backends
        texts.append(",".join(words).removeprefix("=") or made.name)
    return texts


def _with_partners(environment: Environment, options: CollectOptions) -> Environment:
    if environment.factory is not None and options.agent is not None:
        environment = replace(environment, name=GAME + environment.name.removeprefix(GAME))
    if environment.name.startswith(GAME):
        from pivec.rollouts.games import with_partners  # which needs this module

        return with_partners(environment, options)
    if options.agent is not None or options.joint or options.partners:
        raise UsageError(
            f"{environment.name} has no agent, partner or joint states to choose: name "
            "multi-agent environments as pettingzoo:module"
        )
    return environment


def _named_in_files(trained: Sequence[PolicyInfo], trust: bool, acting: Sequence[Policy]) -> str:
    """The environment that all files agree on."""
    if not trained:
        raise UnknownEnvironment(fitting_environments(acting))
    first = trained[0]
    name = str(first.metadata[ENVIRONMENT])
    for info in trained:
        if info.metadata[ENVIRONMENT] != name:
            raise UsageError(
                f"the policies were trained in several environments: {first.source} in {name}, "
                f"{info.source} in {info.metadata[ENVIRONMENT]}: select the runs of one of them"
            )
    if ":" in name and not trust:
        raise UsageError(
            f"{first.source} asks for the environment {name!r}, which imports a module: name the "
            "environment (first, or with --env), or allow it with --trust (in Python: trust=True)"
        )
    return name


def _agreed(infos: Sequence[PolicyInfo], key: str, option: str, read: Callable[[Any], Any]) -> Any:
    """Give what all files say under ``key``."""
    try:
        values = [read(info.metadata.get(key)) for info in infos]
    except (TypeError, ValueError) as error:
        raise UsageError(f"{infos[0].source} has invalid {key}: {error}") from error
    for info, value in zip(infos, values, strict=True):
        if value != values[0]:
            raise UsageError(
                f"the policies were trained with different {key} of the environment: "
                f"{infos[0].source} with {values[0] or 'none'}, {info.source} with "
                f"{value or 'none'}: compare those that share them, or choose with {option}"
            )
    return values[0] if values else read(None)


def fitting_environments(policies: Sequence[Policy]) -> str:
    """Name Gymnasium's own environments whose spaces the first policy fits; empty if unclear."""
    bind = getattr(policies[0], "bind", None) if policies else None
    if bind is None:
        return ""
    newest = {
        spec.name: spec.id
        for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.version or 0)
        if str(spec.entry_point).startswith("gymnasium.envs.") and not spec.namespace
    }
    fitting = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in newest.values():
            try:
                env = gymnasium.make(name, disable_env_checker=True)
                env.close()
                bind(env.observation_space, env.action_space)
            except Exception:  # noqa: S112  # not installed, or refused in the policy's own way
                continue
            spaces = env.observation_space, env.action_space
            values, actions = (int(getattr(s, "n", 0)) or flatdim(s) for s in spaces)
            fitting.append(f"{name} ({values} values, {actions} action{'s' * (actions > 1)})")
    if not 0 < len(fitting) <= _MOST_FITTING:
        return ""
    return f"the first fits {' and '.join(fitting)}"
