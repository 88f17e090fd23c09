"""Behaviour inside Stable-Baselines3's training: `BehaviourCallback`, `StopWhenBehaviourSettles`.

```python
model.learn(1_000_000, callback=pivec.sb3.BehaviourCallback(every=20_000, store="runs/ppo-0"))
```
"""

from __future__ import annotations

from importlib.util import find_spec

from pivec.errors import MissingExtra

if find_spec("stable_baselines3") is None:
    raise MissingExtra("pivec.sb3", "sb3")

from pivec.training.behaviour_callback import BehaviourCallback, StopWhenBehaviourSettles

__all__ = ["BehaviourCallback", "StopWhenBehaviourSettles"]
