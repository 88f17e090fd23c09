"""Where: the paper's own environments, registered with Gymnasium when this package is imported.

vector.py           many of one environment on arrays, each lane equal to a single one
deceptive_point.py  `pivec/DeceptivePoint-v0`: a way up that ends in a pocket (novelty search)
dangerous_path.py   `pivec/DangerousPath-v0`: one right action a step, and mines (trust region)
grid_world.py       `pivec/GridWorld-v0`: walls, and now and then a random action (Figure 1)

Gymnasium has no plugins since version 1.0: what it is to know must be imported. All of pivec does
so by itself; elsewhere write ``import pivec.envs``, or ``gymnasium.make("pivec.envs:pivec/...")``.
"""

from __future__ import annotations

# Name, module, class (with VectorEnv instead of Env for many), steps of an episode.
_ENVIRONMENTS = (
    ("DeceptivePoint-v0", "deceptive_point", "DeceptivePoint", 100),
    ("DangerousPath-v0", "dangerous_path", "DangerousPath", 25),
    ("GridWorld-v0", "grid_world", "GridWorld", 500),
)


def register() -> None:
    """Register the environments with Gymnasium, those that are not registered yet.

    Examples
    --------
    >>> import gymnasium
    >>> register()
    >>> gymnasium.spec("pivec/DeceptivePoint-v0").max_episode_steps
    100
    """
    import gymnasium

    for name, module, kind, steps in _ENVIRONMENTS:
        if f"pivec/{name}" not in gymnasium.registry:
            gymnasium.register(
                f"pivec/{name}",
                entry_point=f"pivec.envs.{module}:{kind}Env",
                vector_entry_point=f"pivec.envs.{module}:{kind}VectorEnv",
                max_episode_steps=steps,
            )


register()
