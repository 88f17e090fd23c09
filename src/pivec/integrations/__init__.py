"""For users' own training loops.

archives      `BehaviourMeasures` for quality diversity, `BehaviourArchive` for novelty search
monitor       `BehaviourMonitor`: how behaviour changes during training, in any loop
gymnasium     wrappers that record visited states into a store
sb3           callbacks of Stable-Baselines3 that log behaviour and stop training
trust_region  PPO whose updates stop when the policy has changed too much
ribs          an archive of pyribs

The last three need optional packages, and are imported by their own names.
"""

from __future__ import annotations

from pivec.integrations.archives import BehaviourArchive, BehaviourMeasures
from pivec.integrations.monitor import BehaviourMonitor

__all__ = ["BehaviourArchive", "BehaviourMeasures", "BehaviourMonitor"]
