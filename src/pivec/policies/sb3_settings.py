"""What the JSON part of a Stable-Baselines3 checkpoint says, where that is there as text.

Its pickled fields (``:serialized:``) are never decoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile
from pivec.policies.beside import read_json
from pivec.policies.forward import Float
from pivec.reading import Budget

ACTIVATION_MODULES = {
    "Tanh": "tanh",
    "ReLU": "relu",
    "ELU": "elu",
    "LeakyReLU": "leaky_relu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
    "GELU": "gelu",
    "Identity": "identity",
}


class SB3Settings:
    """The JSON part of a checkpoint: its archive's member ``data``."""

    def __init__(self, data: bytes | bytearray, budget: Budget | None = None) -> None:
        self.values = read_json(data, budget)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Give the object under a key, empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}

    def argument(self, key: str, default: Any = None) -> Any:
        """Give a keyword argument of the policy's class."""
        return self.mapping("policy_kwargs").get(key, default)

    @property
    def policy_module(self) -> str:
        """The module that the policy's class was defined in; empty if it is not told."""
        return str(self.mapping("policy_class").get("__module__", ""))

    def kind(self, key: str) -> str:
        """Take the last name in text such as ``<class 'gymnasium.spaces.box.Box'>``."""
        return class_name(self.mapping(key).get(":type:"))

    def shape(self, key: str) -> tuple[int, ...] | None:
        """Give the shape of a space; None if it is not told."""
        shape = self.mapping(key).get("_shape")
        if isinstance(shape, list) and all(type(n) is int and 0 < n < 1 << 20 for n in shape):
            return tuple(shape)
        return None

    @property
    def use_sde(self) -> bool:
        """Whether noise comes from a random matrix times the last hidden layer (gSDE)."""
        return bool(self.values.get("use_sde") or self.argument("use_sde"))

    def activation(self, default: str) -> str:
        """Give the activation between the layers."""
        if "activation_fn" not in self.mapping("policy_kwargs"):
            return default
        text = self.argument("activation_fn")
        activation = ACTIVATION_MODULES.get(class_name(text))
        if activation is None or not text.startswith("<class 'torch.nn."):
            raise BadPolicyFile(
                f"it has the activation {str(text)[:80]}, which is not supported: expected one of "
                f"{', '.join(ACTIVATION_MODULES)}"
            )
        return activation

    def _words(self, field: str) -> list[str]:
        """Words of an array of the action space as printed in the JSON."""
        text = self.mapping("action_space").get(field)
        text = str(text) if type(text) is int else text
        return re.sub(r"[\[\],]", " ", text).split() if isinstance(text, str) else []

    def counts(self, field: str) -> tuple[int, ...]:
        """Give the numbers of actions as printed: ``n`` of Discrete, ``nvec`` of MultiDiscrete."""
        words = self._words(field)
        if not words or not all(re.fullmatch(r"[1-9]\d{0,8}", word) for word in words):
            raise BadPolicyFile("it does not tell how many actions there are")
        return tuple(map(int, words))

    def box(self, n_values: int) -> tuple[Float | None, Float | None]:
        """Bounds of the action space as printed in the JSON; None where that was abridged."""
        try:
            box = np.array([[float(word) for word in self._words(key)] for key in ("low", "high")])
        except ValueError:
            return None, None
        if box.shape != (2, n_values) or np.isnan(box).any() or (box[0] > box[1]).any():
            return None, None
        with np.errstate(over="ignore"):
            low, high = box.astype(np.float32)
        return low, high

    @property
    def trained_normalised(self) -> bool | None:
        """Whether the model was trained in a VecNormalize; None if that is not told.

        PPO, A2C and TRPO keep the last observation before normalisation if there was one; the
        others always keep it.
        """
        if "gae_lambda" not in self.values:
            return None
        if self.values.get("_last_original_obs") is not None:
            return True
        steps = self.values.get("num_timesteps")
        if type(steps) is int and steps > 0 and "_last_original_obs" in self.values:
            return False
        return None


def class_name(text: Any) -> str:
    """Take the last name in text such as ``<class 'torch.nn.modules.activation.Tanh'>``."""
    match = re.fullmatch(r"<class '([\w.]+)'>", text) if isinstance(text, str) else None
    return match.group(1).rpartition(".")[2] if match else ""
