"""Characterizes decision-making agents by the states they visit, compares them, shows differences.

Packages, in the order of the data; each imports only from those before it:

parallel           this process, local processes, or a Ray cluster
policies           the policy protocol, and loaders for common formats
rollouts           running policies: episodes, seeds, vectorized environments
states             `VisitedStates` in memory, `Store` on disk, readers for other formats
mixtures           the background model: sufficient statistics, EM, MAP
statistics         distances, intervals, tests, planning, groups
characterizations  how a policy is described: one contract, one file per family
explanations       decompositions, regions, runs, unusual episodes, replay
report             tables, figures, the HTML page
workflows          collect, compare, same, plan, watch, evaluate
integrations       Stable-Baselines3, Gymnasium, pyribs
server, cli        the live page and the command line

Everything below is imported on first use, so that ``import pivec`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "Actions": "pivec.characterizations.policies",
    "Characterization": "pivec.characterizations",
    "Comparison": "pivec.workflows",
    "Descriptions": "pivec.characterizations",
    "Discretization": "pivec.characterizations.discretization",
    "Discriminator": "pivec.characterizations.networks",
    "Gaussian": "pivec.characterizations.distributions",
    "MMD": "pivec.characterizations.distributions",
    "Parameters": "pivec.characterizations.policies",
    "PivecError": "pivec.errors",
    "Policy": "pivec.policies",
    "PolicyEncoder": "pivec.characterizations.networks",
    "Returns": "pivec.characterizations.episodes",
    "SkillDiscriminator": "pivec.characterizations.networks",
    "SlicedWasserstein": "pivec.characterizations.distributions",
    "Space": "pivec.characterizations",
    "StateActions": "pivec.characterizations.networks",
    "Store": "pivec.states",
    "Supervector": "pivec.characterizations",
    "TerminalState": "pivec.characterizations.episodes",
    "Trajectories": "pivec.characterizations.episodes",
    "TrajectoryEncoder": "pivec.characterizations.networks",
    "Transitions": "pivec.characterizations.discretization",
    "UsageError": "pivec.errors",
    "Visitation": "pivec.characterizations",
    "VisitedStates": "pivec.states",
    "characterization": "pivec.characterizations",
    "collect": "pivec.workflows",
    "compare": "pivec.workflows",
    "fit_encoder": "pivec.workflows.encoder",
    "load": "pivec.states",
    "load_comparison": "pivec.workflows",
    "load_policies": "pivec.policies",
    "plan": "pivec.workflows.equivalence",
    "same": "pivec.workflows.equivalence",
    "using": "pivec.parallel",
    "watch": "pivec.workflows.watch",
}

if TYPE_CHECKING:
    from pivec.characterizations import Characterization as Characterization
    from pivec.characterizations import Descriptions as Descriptions
    from pivec.characterizations import Space as Space
    from pivec.characterizations import Supervector as Supervector
    from pivec.characterizations import Visitation as Visitation
    from pivec.characterizations import characterization as characterization
    from pivec.characterizations.discretization import Discretization as Discretization
    from pivec.characterizations.discretization import Transitions as Transitions
    from pivec.characterizations.distributions import MMD as MMD
    from pivec.characterizations.distributions import Gaussian as Gaussian
    from pivec.characterizations.distributions import SlicedWasserstein as SlicedWasserstein
    from pivec.characterizations.episodes import Returns as Returns
    from pivec.characterizations.episodes import TerminalState as TerminalState
    from pivec.characterizations.episodes import Trajectories as Trajectories
    from pivec.characterizations.networks import Discriminator as Discriminator
    from pivec.characterizations.networks import PolicyEncoder as PolicyEncoder
    from pivec.characterizations.networks import SkillDiscriminator as SkillDiscriminator
    from pivec.characterizations.networks import StateActions as StateActions
    from pivec.characterizations.networks import TrajectoryEncoder as TrajectoryEncoder
    from pivec.characterizations.policies import Actions as Actions
    from pivec.characterizations.policies import Parameters as Parameters
    from pivec.errors import PivecError as PivecError
    from pivec.errors import UsageError as UsageError
    from pivec.parallel import using as using
    from pivec.policies import Policy as Policy
    from pivec.policies import load_policies as load_policies
    from pivec.states import Store as Store
    from pivec.states import VisitedStates as VisitedStates
    from pivec.states import load as load
    from pivec.workflows import Comparison as Comparison
    from pivec.workflows import load_comparison as load_comparison
    from pivec.workflows.collector import collect as collect
    from pivec.workflows.comparison import compare as compare
    from pivec.workflows.encoder import fit_encoder as fit_encoder
    from pivec.workflows.equivalence import plan as plan
    from pivec.workflows.equivalence import same as same
    from pivec.workflows.watch import watch as watch

__all__ = sorted([*_EXPORTS, "__version__"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
