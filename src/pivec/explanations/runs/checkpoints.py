"""The checkpoints of a training run in the order of training, with what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.explaining import share_ends
from pivec.characterizations.visitation import Visitation
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.folder import Findings
from pivec.policies.paths import natural_key
from pivec.policies.policy import first_names
from pivec.states.visited import VisitedStates

Array = NDArray[np.float64]
_MOST = 1000  # checkpoints that are held against each other


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a run, described with influences, and their states where these are kept."""

    method: BackgroundModel
    described: Descriptions
    states: VisitedStates | None
    notes: tuple[str, ...]  # what is left out

    @classmethod
    def of(cls, findings: Findings, run: str) -> Checkpoints:
        """Find a run by its name, or by the end of it."""
        method, policies = findings.background, findings.policies
        name = _run_called(findings, run)
        own = [i for i, info in enumerate(policies) if info.group == name]
        rows = sorted(
            (i for i in own if policies[i].step is not None),
            key=lambda i: (policies[i].step, policies[i].label),
        )
        if len(rows) < 2:
            raise UsageError(
                f"expected a run of at least two checkpoints with a training step, but {name!r} "
                f"has {len(rows)}: explain two policies by their names instead"
            )
        notes = []
        if lacking := len(own) - len(rows):
            unknown = "1 policy" if lacking == 1 else f"{lacking} policies"
            notes.append(f"without {unknown} of the run that the training step is not known of")
        if len(rows) > _MOST:
            notes.append(f"of {len(rows)} checkpoints {_MOST} are looked at, evenly over the run")
            rows = [rows[k] for k in np.linspace(0, len(rows) - 1, _MOST).round().astype(int)]
        described = findings.space.descriptions.select(rows)
        kept = {} if findings.data is None else dict.fromkeys(findings.data.labels)
        states = None
        if all(label in kept for label in described.labels):
            states = findings.states.select(described.labels)
        if "influences" not in described.arrays:
            described = method.describe(findings.states.select(described.labels), influences=True)
        return cls(method, described, states, tuple(notes))

    @property
    def steps(self) -> tuple[int, ...]:
        """Their training steps."""
        return tuple(step for step in self.described.steps if step is not None)

    @property
    def sides(self) -> Descriptions | VisitedStates:
        """What the distance of two is taken apart by: descriptions if these suffice."""
        if isinstance(self.method, Visitation) or self.states is None:
            return self.described
        return self.states

    def shares(self, level: float) -> tuple[Array, Array, Array]:
        """Shares of time in the regions, (n, R), and from where to where each may lie."""
        from scipy.stats import t

        counts, effective = self.described.values("counts", "effective_episodes")
        n_fits, episodes = self.method._n_fits, self.described.n_episodes.astype(np.float64)
        shares = counts / counts.sum(axis=1, keepdims=True)
        variances = np.full_like(shares, np.nan)
        if isinstance(self.method, Visitation):
            _, variances = self.method._sampled_shares(self.described)
            variances[episodes == 1] = np.nan
        reach = t.ppf((1.0 + level) / 2.0, np.maximum(effective - 1.0, 1.0))
        shares, variances = n_fits * shares, n_fits**2 * variances  # each has all of the time
        usual = n_fits * self.method.weights_
        return shares, *share_ends(shares, variances, usual, episodes, reach)


def _run_called(findings: Findings, run: str) -> str:
    runs = sorted({info.group for info in findings.policies if info.group}, key=natural_key)
    if not runs:
        raise UsageError(
            f"no policy of {findings.folder} belongs to a training run: a run is a folder of "
            "checkpoints, or what `groups` says where states come from Python"
        )
    ending = [name for name in runs if name.endswith(f"/{run}")]
    if run not in runs and len(ending) != 1:
        raise UsageError(
            f"{findings.folder} has no run {run!r}{did_you_mean(run, runs)}: it has "
            f"{first_names(runs)}"
        )
    return run if run in runs else ending[0]
