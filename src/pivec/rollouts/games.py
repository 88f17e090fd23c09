"""Which game of several agents, whose role is compared, and who the partners are.

``pettingzoo:module`` or ``pettingzoo:module:function``. What was chosen becomes arguments of the
environment, so that a store knows it, and episodes can be played again.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pivec.errors import BadPolicyFile, MissingExtra, PivecWarning, UsageError, did_you_mean
from pivec.options import CollectOptions
from pivec.policies import IMPORTABLE, NamedPolicy, name_policies
from pivec.rollouts.named_objects import import_here
from pivec.rollouts.seen import Values

if TYPE_CHECKING:
    from pivec.rollouts.environment import Environment
    from pivec.rollouts.role_env import RoleEnv

GAME = "pettingzoo:"  # how the names of games begin
SELF = "self"  # the partner that is the policy itself
_NAMED = re.compile(r"(?P<role>[\w*?-]+)=(?P<policy>.+)")
_KNOWN = re.compile(r"(?P<source>.+)#(?P<fingerprint>[0-9a-f]{16})")


def make_game(name: str, factory: Any, arguments: Mapping[str, Any]) -> Any:
    """Make a game of PettingZoo by a function or by name."""
    if importlib.util.find_spec("pettingzoo") is None:
        raise MissingExtra(f"{name} is an environment of PettingZoo, which", "agents")
    import pettingzoo  # type: ignore[import-untyped]

    game = (factory or _function(name))(**arguments)
    if not isinstance(game, pettingzoo.AECEnv | pettingzoo.ParallelEnv):
        raise UsageError(f"{name} must make an environment of PettingZoo, but made {type(game)}")
    return game


def _function(name: str) -> Any:
    """Find what makes a game, a parallel one where a module has both kinds."""
    path, _, function = name.removeprefix(GAME).partition(":")
    try:
        try:
            module: Any = import_here(path)
        except ModuleNotFoundError as error:
            if error.name != path.partition(".")[0]:
                raise
            module = import_here(f"pettingzoo.{path}")
    except (Exception, SystemExit) as error:
        hint = ": its environments are those of mpe2 now (pip install mpe2)" * ("mpe" in path)
        raise UsageError(
            f"the game {name} cannot be imported: {type(error).__name__}: {error}{hint}"
        ) from error
    function = function or ("parallel_env" if hasattr(module, "parallel_env") else "env")
    if not hasattr(module, function):
        hint = did_you_mean(function, dir(module))
        raise UsageError(f"{path} has no {function!r}{hint}: expected a module of PettingZoo")
    return getattr(module, function)


def make_role(
    name: str,
    factory: Any,
    policies: Mapping[str, Any],
    *,
    agent: str | None = None,
    partners: Any = None,  # noqa: ARG001 - what ``policies`` were read from
    joint: bool = False,
    **arguments: Any,
) -> RoleEnv:
    """Make the environment of one role."""
    from pivec.rollouts.role_env import RoleEnv  # which needs what this is part of

    game = make_game(name, factory, arguments)
    roles = list(game.possible_agents)
    if agent not in roles:
        asked = "say" if agent is None else f"it has no {agent!r}{did_you_mean(agent, roles)}, say"
        raise UsageError(
            f"{name} is a game of {', '.join(roles)}: {asked} with --agent (in Python agent=) as "
            "whom the policies act"
        )
    acting = {
        role: named if isinstance(named, str) else named.policy for role, named in policies.items()
    }
    return RoleEnv(game, str(agent), acting, joint)


def with_partners(environment: Environment, options: CollectOptions) -> Environment:
    """Settle role and partners by what the user says, or else by what the arguments hold."""
    mine = _by_role(options.partners)
    if environment.factory is not None and options.agent is not None:
        environment = replace(environment, name=GAME + environment.name.removeprefix(GAME))
    if not environment.name.startswith(GAME):
        if options.agent is not None or options.joint or mine:
            raise UsageError(
                f"{environment.name} has no agent, partner or joint states to choose: those are of "
                "games of several agents, which are named as pettingzoo:module"
            )
        return environment
    if environment.partners and not mine:
        return environment
    arguments = dict(environment.arguments)
    if options.agent is not None:
        arguments["agent"] = options.agent
    if options.joint:
        arguments["joint"] = True
    asked = mine or _by_role(arguments.pop("partners", None))
    env = make_role(environment.name, environment.factory, {}, **arguments)
    env.close()
    chosen = _chosen(asked, list(env.partners))
    may_import = bool(mine) or options.trust  # as arguments they may be a stranger's
    read = {id(policy): _read(policy, options, may_import) for policy in chosen.values()}
    policies = {role: read[id(policy)] for role, policy in chosen.items()}
    for role, policy in policies.items():
        seat = env.seats[role]
        if policy == SELF and (seat.observation_space.shape, seat.action_space) != (
            env.observation_space.shape,
            env.action_space,
        ):
            raise UsageError(
                f"self cannot act as {role}, whose observations or actions are other than those "
                f"of {env.agent}: name a policy with --partner {role}=POLICY"
            )
    texts = {role: _text(policy) for role, policy in policies.items()}
    return replace(environment, arguments={**arguments, "partners": texts}, partners=policies)


def _chosen(asked: Mapping[str, Any], roles: Sequence[str]) -> dict[str, Any]:
    """Give a partner for each role, and say who acts at random because nobody chose."""
    chosen = dict.fromkeys(roles, "random")
    random = set(roles)
    for pattern in sorted(asked, key=lambda pattern: "*" not in pattern):  # a whole name wins
        named = [role for role in roles if fnmatchcase(role, pattern)]
        if not named:
            hint = did_you_mean(pattern, roles)
            raise UsageError(f"no partner is called {pattern!r}{hint}: they are {', '.join(roles)}")
        chosen |= dict.fromkeys(named, asked[pattern])
        random -= set(named)
    if random:
        warnings.warn(
            f"{', '.join(sorted(random))} act{'s' * (len(random) == 1)} at random: choose partners "
            "with --partner [NAME=]POLICY (in Python partners=)",
            PivecWarning,
            stacklevel=5,
        )
    return chosen


def joint_states(environment: Environment) -> Values:
    """Features that are what all agents see."""
    env: Any = environment.make()
    env.close()
    return Values("env", tuple(f"joint.{role}" for role in env.unwrapped.seats))


def _by_role(partners: Any) -> dict[str, Any]:
    """Read partners: by role, or one for all, as on the command line ``[NAME=]POLICY``."""
    if isinstance(partners, Mapping):
        return dict(partners)
    if partners is None:
        return {}
    result: dict[str, Any] = {}
    single = isinstance(partners, str) or not isinstance(partners, Sequence)
    for partner in [partners] if single else partners:
        named = _NAMED.fullmatch(partner) if isinstance(partner, str) else None
        result[named["role"] if named else "*"] = named["policy"] if named else partner
    return result


def _read(partner: Any, options: CollectOptions, may_import: bool) -> NamedPolicy | str:
    """Read the one policy that a partner is; of one that a store names it must be the same."""
    if partner == SELF:
        return SELF
    known = _KNOWN.fullmatch(partner) if isinstance(partner, str) else None
    source = known["source"] if known else partner
    if not may_import and IMPORTABLE.fullmatch(str(source)):
        raise UsageError(
            f"the partner {source} is a Python object: allow importing it with --trust (in Python: "
            "trust=True), or name partners again"
        )
    policies = name_policies(source, options.trust, options.without_normaliser)
    if len(policies) != 1:
        raise UsageError(f"a partner is one policy, but {partner} are {len(policies)}")
    if known and not policies[0].info.fingerprint.startswith(known["fingerprint"]):
        raise BadPolicyFile(f"the partner {source} is another than when the states were collected")
    return policies[0]


def _text(partner: NamedPolicy | str) -> str:
    """Say by what a store knows a partner."""
    if isinstance(partner, str) or partner.info.source == "random":
        return SELF if isinstance(partner, str) else "random"
    return f"{partner.info.source}#{partner.info.fingerprint[:16]}"
