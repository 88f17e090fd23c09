"""Describes decision-making agents by the states they visit, compares them, shows the difference.

The way of the data, which is also the listing of the folders:

policies           who acts: a small protocol, and loaders for what people have on disk
rollouts           acting: episode quotas, seeds, vectorised environments, policies in lock-step
states             what was visited: `VisitedStates` in memory, the store on disk
mixtures           the background model: sufficient statistics, EM, MAP
characterizations  how a policy is described: one file for each way, one contract for all
distances          how far apart two descriptions are
evaluation         how good a characterization is
maps               policies in the plane
report             tables, figures, the page
training           making policies
engines            where the work runs: this process, these cores, a Ray cluster
collection, comparison   the drivers: `collect`, and all of it in one go: `compare`
equivalence, pilot       `same`: do two behave alike; `plan`: how many episodes does it take
sides                    what stands on either side of such a question
watching                 `watch`: a comparison that grows while training runs
sb3, gymnasium, ribs   for people's own code: a callback, wrappers that record, archives

Everything below is imported when it is first used, so that ``import pivec`` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pivec.lazy import attach

__version__ = "0.1.0"

_EXPORTS = {
    "Actions": "pivec.characterizations",
    "Characterization": "pivec.characterizations",
    "Comparison": "pivec.report",
    "Descriptions": "pivec.characterizations",
    "Discretization": "pivec.characterizations",
    "Discriminator": "pivec.characterizations",
    "Gaussian": "pivec.characterizations",
    "MMD": "pivec.characterizations",
    "Parameters": "pivec.characterizations",
    "PivecError": "pivec.errors",
    "Policy": "pivec.policies",
    "PolicyEncoder": "pivec.characterizations",
    "Returns": "pivec.characterizations",
    "SkillDiscriminator": "pivec.characterizations",
    "SlicedWasserstein": "pivec.characterizations",
    "Space": "pivec.characterizations",
    "StateActions": "pivec.characterizations",
    "Store": "pivec.states",
    "Supervector": "pivec.characterizations",
    "TerminalState": "pivec.characterizations",
    "Trajectories": "pivec.characterizations",
    "TrajectoryEncoder": "pivec.characterizations",
    "Transitions": "pivec.characterizations",
    "UsageError": "pivec.errors",
    "Visitation": "pivec.characterizations",
    "VisitedStates": "pivec.states",
    "characterization": "pivec.characterizations",
    "collect": "pivec.workflows.collect",
    "compare": "pivec.workflows.compare",
    "compare_groups": "pivec.report",
    "explain": "pivec.explanations",
    "explain_groups": "pivec.explanations",
    "explain_run": "pivec.explanations",
    "fit_encoder": "pivec.workflows.encoder",
    "load": "pivec.states",
    "load_policies": "pivec.policies",
    "plan": "pivec.workflows.plan",
    "regions": "pivec.explanations:summarize_regions",
    "same": "pivec.workflows.same",
    "unusual": "pivec.explanations:find_unusual",
    "using": "pivec.parallel.engine",
    "watch": "pivec.workflows.watch",
}

if TYPE_CHECKING:
    from pivec.characterizations import MMD as MMD
    from pivec.characterizations import Actions as Actions
    from pivec.characterizations import Characterization as Characterization
    from pivec.characterizations import Descriptions as Descriptions
    from pivec.characterizations import Discretization as Discretization
    from pivec.characterizations import Discriminator as Discriminator
    from pivec.characterizations import Gaussian as Gaussian
    from pivec.characterizations import Parameters as Parameters
    from pivec.characterizations import PolicyEncoder as PolicyEncoder
    from pivec.characterizations import Returns as Returns
    from pivec.characterizations import SkillDiscriminator as SkillDiscriminator
    from pivec.characterizations import SlicedWasserstein as SlicedWasserstein
    from pivec.characterizations import Space as Space
    from pivec.characterizations import StateActions as StateActions
    from pivec.characterizations import Supervector as Supervector
    from pivec.characterizations import TerminalState as TerminalState
    from pivec.characterizations import Trajectories as Trajectories
    from pivec.characterizations import TrajectoryEncoder as TrajectoryEncoder
    from pivec.characterizations import Transitions as Transitions
    from pivec.characterizations import Visitation as Visitation
    from pivec.characterizations import characterization as characterization
    from pivec.errors import PivecError as PivecError
    from pivec.errors import UsageError as UsageError
    from pivec.explanations import explain as explain
    from pivec.explanations import explain_groups as explain_groups
    from pivec.explanations import explain_run as explain_run
    from pivec.explanations import find_unusual as unusual  # noqa: F401
    from pivec.explanations import summarize_regions as regions  # noqa: F401
    from pivec.parallel import using as using
    from pivec.policies import Policy as Policy
    from pivec.policies import load_policies as load_policies
    from pivec.report import Comparison as Comparison
    from pivec.report import compare_groups as compare_groups
    from pivec.states import Store as Store
    from pivec.states import VisitedStates as VisitedStates
    from pivec.states import load as load
    from pivec.workflows import fit_encoder as fit_encoder
    from pivec.workflows.collect import collect as collect
    from pivec.workflows.compare import compare as compare
    from pivec.workflows.plan import plan as plan
    from pivec.workflows.same import same as same
    from pivec.workflows.watch import watch as watch

__all__ = sorted([*_EXPORTS, "__version__"])  # noqa: PLE0605

__getattr__, _names = attach(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])
