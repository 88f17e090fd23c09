"""Policies of LeRobot (``save_pretrained``), run by LeRobot itself, with the user's trust.

``config.json`` next to ``model.safetensors`` names the policy; the processors next to it normalise
observations and actions, and may name any class to import.
"""

from __future__ import annotations

import copy
import hashlib
import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.callables import CallablePolicy, user_code
from pivec.policies.formats import CheckpointFiles, Read

CONFIG, PROCESSORS = "config.json", r"policy_(pre|post)processor.*"
# Attributes in which policies keep what they have seen and planned in an episode.
STATES = ("_queues", "_action_queue", "temporal_ensembler", "_prev_mean")


def read_lerobot(data: bytes, kind: str, files: CheckpointFiles) -> Read:
    """Let LeRobot load the folder of a policy of this ``kind``."""
    files.demand_trust(f"is a policy of LeRobot ({kind[:40]}), whose processors LeRobot imports")
    runner = _load(str(files.path and files.path.parent.resolve()), kind)
    digest = hashlib.sha256(data)
    for name in (CONFIG, *files.names(PROCESSORS)):
        digest.update(name.encode() + (files.read(name) or b""))
    policy = CallablePolicy(
        runner, files.name, rng="keyword", memory="memory", fingerprint=digest.hexdigest()
    )
    return policy, {"library": "LeRobot", "algorithm": kind}


@dataclass(frozen=True, eq=False)
class _Runner:
    """A loaded policy between its processors; pickling stores the folder."""

    folder: str
    kind: str
    policy: Any
    before: Any
    after: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.folder, self.kind)

    def __call__(
        self, observations: Any, *, rng: np.random.Generator, memory: Any = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        import torch

        own = vars(self.policy)
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(int(rng.integers(1 << 62)))
            if memory is None:  # other episodes keep theirs
                own.update({name: copy.copy(own[name]) for name in STATES if name in own})
                self.policy.reset()
            own.update(memory or {})
            given = self.before(self._features(observations))
            actions = self.after(self.policy.select_action(given))
        return actions.cpu().numpy(), {name: own[name] for name in STATES if name in own}

    def _features(self, observations: Any) -> Any:
        """Observations by LeRobot's names: those of its environments, or the only one."""
        import torch
        from lerobot.envs.utils import preprocess_observation

        expected = sorted(self.policy.config.input_features)
        if isinstance(observations, dict):
            result = preprocess_observation(observations)
        elif len(expected) == 1:
            result = {expected[0]: torch.from_numpy(np.asarray(observations, np.float32))}
        else:
            result = {}
        if missing := set(expected) - set(result):
            raise UsageError(
                f"this policy expects {', '.join(sorted(missing))}, which the environment does not "
                "give: LeRobot's have dictionaries of agent_pos, environment_state and pixels"
            )
        return result


def _load(folder: str, kind: str) -> _Runner:
    try:
        from lerobot.configs.policies import PreTrainedConfig
        from lerobot.policies.factory import get_policy_class, make_pre_post_processors
    except ImportError as error:
        raise BadPolicyFile("it needs LeRobot, which loads it: pip install lerobot") from error
    device = {"device_processor": {"device": "cpu"}}
    with user_code("LeRobot cannot load it", BadPolicyFile), redirect_stdout(io.StringIO()):
        config = PreTrainedConfig.from_pretrained(folder)
        config.device = "cpu"
        policy = get_policy_class(kind).from_pretrained(folder, config=config)
        before, after = make_pre_post_processors(
            config, folder, preprocessor_overrides=device, postprocessor_overrides=device
        )
    return _Runner(folder, kind, policy.eval(), before, after)
