"""StopWhenBehaviourSettles: ends Stable-Baselines3's training when behaviour does not change."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from pivec.distances.settling import SettlingRule
from pivec.training.behaviour_callback import BehaviourCallback


class StopWhenBehaviourSettles(BaseCallback):  # type: ignore[misc]  # the library has no types
    """Stops training when behaviour has not changed for some descriptions.

    Give it behind the `BehaviourCallback` that it looks at:
    ``model.learn(..., callback=[behaviour, StopWhenBehaviourSettles(behaviour)])``.

    Parameters
    ----------
    behaviour : BehaviourCallback
    checkpoints, tolerance, deviations
        See `pivec.distances.SettlingRule`.
    verbose : int
        1 prints a line when it stops.

    Attributes
    ----------
    stopped_at : int or None
        The training step at which it stopped.
    """

    def __init__(
        self,
        behaviour: BehaviourCallback,
        checkpoints: int = 10,
        tolerance: float = 0.01,
        deviations: float = 3.0,
        *,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.behaviour = behaviour
        self.rule = SettlingRule(checkpoints, tolerance, deviations)
        self.stopped_at: int | None = None
        self._judged = 0

    def _on_step(self) -> bool:
        described = len(self.behaviour.changes)
        if described == self._judged:
            return True
        self._judged = described
        if not self.behaviour.monitor.has_settled(self.rule):
            return True
        self.stopped_at = self.num_timesteps
        if self.verbose:
            print(  # noqa: T201  # what verbose asks for
                f"Stopped at step {self.stopped_at}: behaviour has not changed for "
                f"{self.rule.checkpoints} descriptions"
            )
        return False
