"""The paper's own environments, registered with Gymnasium when this module is imported.

novelty/world.py       `pivec/DeceptivePoint-v0`: a way up that ends in a pocket (novelty search)
trust_region/world.py  `pivec/DangerousPath-v0`: one right action a step, and mines (trust region)
gridworld/world.py     `pivec/GridWorld-v0`: walls, and now and then a random action (Figure 1)

All of pivec imports it where it meets such an id; elsewhere write ``import pivec.paper.worlds``, or
``gymnasium.make("pivec.paper.worlds:pivec/...")``.
"""

from __future__ import annotations

# Name, module, class (with VectorEnv instead of Env for many), steps of an episode.
_ENVIRONMENTS = (
    ("DeceptivePoint-v0", "novelty", "DeceptivePoint", 100),
    ("DangerousPath-v0", "trust_region", "DangerousPath", 25),
    ("GridWorld-v0", "gridworld", "GridWorld", 500),
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
                entry_point=f"pivec.paper.{module}.world:{kind}Env",
                vector_entry_point=f"pivec.paper.{module}.world:{kind}VectorEnv",
                max_episode_steps=steps,
            )


register()
