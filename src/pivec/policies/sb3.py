"""Reads checkpoints of Stable-Baselines3 and SB3-contrib without torch, and without either.

The JSON in the archive says what the policy is, the weights come from `pivec.policies.tensors`, and
`pivec.policies.sb3_networks` makes a network of both.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import sb3_networks
from pivec.policies.cnn import ImageNetwork
from pivec.policies.extractors import CombinedFeatures, read_extractor
from pivec.policies.formats import Beside, about, reader
from pivec.policies.lstm import RecurrentNetwork, read_cells
from pivec.policies.masked import MaskedPolicy
from pivec.policies.network import NetworkPolicy
from pivec.policies.normaliser import Normaliser
from pivec.policies.outputs import Features, OutputPolicy
from pivec.policies.sb3_networks import SB3Settings
from pivec.policies.sb3_run import find_normaliser, find_zoo_run
from pivec.policies.tensors import Tensors, read_tensors
from pivec.reading import BoundedZip, Budget

KNOWN_EXTRACTORS = tuple(
    f"<class 'stable_baselines3.common.torch_layers.{kind}'>"
    for kind in ("FlattenExtractor", "CombinedExtractor", "NatureCNN")
)
NOT_NORMALISED = "it sees {}, which is not supported: pass it as module:object"
POLICY_MODULES = frozenset(
    {
        *("", "abc"),
        *(f"stable_baselines3.{part}.policies" for part in ("common", "sac", "td3", "dqn")),
        *(f"sb3_contrib.{part}.policies" for part in ("tqc", "qrdqn", "common.recurrent")),
        "sb3_contrib.common.maskable.policies",
    }
)
SPACES = {
    **dict.fromkeys(("SAC", "TQC", "TD3", "DDPG"), ("Box",)),
    **dict.fromkeys(("DQN", "QR-DQN"), ("Discrete",)),
    "MaskablePPO": ("Discrete", "MultiDiscrete"),
    **dict.fromkeys(
        ("PPO", "A2C", "TRPO", "RecurrentPPO"), ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
    ),
}
"""Algorithm -> the kinds of actions it may have."""


SB3Policy = NetworkPolicy | OutputPolicy | RecurrentNetwork | MaskedPolicy


@reader
def read_sb3(data: bytes, beside: Beside) -> tuple[SB3Policy, dict[str, Any]]:
    """Read the policy network of a Stable-Baselines3 ``.zip``, and what it tells of its training.

    That is ``algorithm``, ``step`` (environment steps trained for), ``sb3_version``, ``epsilon``
    (of DQN) where known; ``normaliser``, the file applied to observations, if there is one; and
    where RL Zoo tells, ``environment`` with its ``arguments``, ``wrappers`` and ``imports``.
    """
    budget = Budget(len(data), "it")
    archive = BoundedZip(data, budget)
    if not {"data", "policy.pth"} <= set(archive.members):
        raise BadPolicyFile(
            "it is a zip archive, but not of Stable-Baselines3: expected 'data' and 'policy.pth' "
            "in it"
        )
    with about("'data' in it"):
        settings = SB3Settings(archive.read("data"), budget)
    with about("policy.pth in it"):
        tensors = read_tensors(archive.read("policy.pth"), budget)
    run = find_zoo_run(beside)
    normaliser, normaliser_file = find_normaliser(beside, settings.trained_normalised, run)
    if normaliser is not None and run is not None and run.frame_stack > 1:
        raise BadPolicyFile(NOT_NORMALISED.format("what is normalised and then stacked"))
    policy: SB3Policy
    try:
        policy, info = _policy(settings, tensors)
    except (BadPolicyFile, UsageError) as error:
        from pivec.policies.trusted import read_by_library

        policy, info = read_by_library(data, settings, tensors, beside, error)
    policy = _normalised(policy, normaliser, settings.shape("observation_space"))
    steps = settings.values.get("num_timesteps")
    if type(steps) is int and steps >= 0:
        info["step"] = steps
    if "_stable_baselines3_version" in archive.members:
        text = archive.read("_stable_baselines3_version")[:40].decode("utf-8", "replace")
        info["sb3_version"] = text.strip()
    if normaliser_file:
        info["normaliser"] = normaliser_file
    if run is not None:
        info |= run.about(settings.shape("observation_space"))
    return policy, info


def _policy(settings: SB3Settings, tensors: Tensors) -> tuple[SB3Policy, dict[str, Any]]:
    """Make the policy of networks that are known, and tell its algorithm."""
    algorithm, read = _algorithm(settings, tensors)
    features = _features(settings, tensors)
    kind = settings.kind("action_space")
    if kind not in SPACES[algorithm]:
        raise BadPolicyFile(
            f"it has the action space {kind or 'unknown'}, which is not supported: "
            f"expected {' or '.join(SPACES[algorithm])}"
        )
    network = _in_space(read(tensors, settings), settings)
    info: dict[str, Any] = {"algorithm": algorithm}
    if network.head == "epsilon_greedy":
        info["epsilon"] = network.options.epsilon
    if algorithm == "RecurrentPPO":
        cells = read_cells(tensors, "lstm_actor")
        return RecurrentNetwork(cells, network, features=features), info
    if algorithm == "MaskablePPO":
        if features:
            raise BadPolicyFile("it is MaskablePPO behind a features extractor: not supported")
        return MaskedPolicy(network), info
    return (ImageNetwork(features, network).policy() if features else network), info


def _normalised(
    policy: SB3Policy, normaliser: Normaliser | None, shape: tuple[int, ...] | None
) -> SB3Policy:
    """Give a policy the statistics of its observations, which have this shape."""
    if isinstance(policy, MaskedPolicy):
        return MaskedPolicy(replace(policy.network, normaliser=normaliser))
    if normaliser is not None and not isinstance(policy, NetworkPolicy):
        model = policy if isinstance(policy, RecurrentNetwork) else policy.model
        features = getattr(model, "features", None)
        if len(shape or ()) == 3 or (
            isinstance(features, CombinedFeatures) and features.changes_images(normaliser)
        ):
            raise BadPolicyFile(NOT_NORMALISED.format("images that are normalised"))
    return replace(policy, normaliser=normaliser)


def convert_sb3(model: Any) -> SB3Policy:
    """Take the policy network out of a model that is in memory.

    Its actions then follow the generator they are given, where ``model.predict`` follows torch's
    and NumPy's global ones, and it can be stacked with others. Observations are normalised if the
    model's environment is a VecNormalize. Networks of kinds that are not known are asked by the
    library, see `pivec.policies.trusted`; what that cannot do either is a BadPolicyFile.
    """
    from gymnasium.spaces import flatdim

    buffer = io.BytesIO()
    model.save(buffer)
    name = f"the {type(model).__name__} model"
    # That no statistics lie beside it is as it should be: they are in the model's environment. Its
    # code is the user's own.
    policy, _ = read_sb3(buffer.getvalue(), name, Beside(trust=True, without_normaliser=True))
    wrapper = model.get_vec_normalize_env()
    if wrapper is None or not wrapper.norm_obs:
        return policy
    space, statistics = model.observation_space, wrapper.obs_rms
    parts = [(space, statistics)]
    if isinstance(statistics, dict):
        parts = [(part, statistics.get(key)) for key, part in space.spaces.items()]
    normaliser = Normaliser.joined(
        [
            Normaliser.of_variance(moments.mean, moments.var, wrapper.epsilon, wrapper.clip_obs)
            if moments is not None
            else flatdim(part)
            for part, moments in parts
        ]
    )
    return _normalised(policy, normaliser, space.shape)


def _in_space(network: NetworkPolicy, settings: SB3Settings) -> NetworkPolicy:
    """The network with the shape and the box of its actions."""
    options, shape = network.options, settings.shape("action_space")
    if shape is not None and len(shape) > 1:
        options = replace(options, shape=shape)
    low, high = None, None
    if settings.kind("action_space") == "Box":
        low, high = settings.box(network.rule.n_values)
    return replace(network, options=options, low=low, high=high)


def _algorithm(
    settings: SB3Settings, tensors: Tensors
) -> tuple[str, Callable[[Tensors, SB3Settings], NetworkPolicy]]:
    """Which algorithm wrote this and how its network is read, or a refusal that names it."""
    prefixes = {key.partition(".")[0] for key in tensors}
    other = "an algorithm of another family"
    if "lstm_actor" in prefixes:
        return "RecurrentPPO", sb3_networks.actor_critic
    if "maskable" in settings.policy_module:
        return "MaskablePPO", sb3_networks.actor_critic
    if "actor" in prefixes and "crossq" in settings.policy_module:
        other = "CrossQ, whose networks normalise batches"
    elif "actor" in prefixes and "policy_delay" in settings.values:
        single = settings.argument("n_critics") == 1 and settings.values["policy_delay"] == 1
        return "DDPG" if single else "TD3", sb3_networks.plain_actor
    elif "actor" in prefixes:
        drops = "top_quantiles_to_drop_per_net" in settings.values
        contrib = drops or "tqc" in settings.policy_module
        return "TQC" if contrib else "SAC", sb3_networks.squashed_actor
    elif "q_net" in prefixes or "quantile_net" in prefixes:
        return "DQN" if "q_net" in prefixes else "QR-DQN", sb3_networks.values
    elif "action_net" in prefixes:
        marks = {"clip_range": "PPO", "cg_max_steps": "TRPO", "gae_lambda": "A2C"}
        for key, algorithm in marks.items():
            if key in settings.values:
                return algorithm, sb3_networks.actor_critic
        other = "PPO, A2C or TRPO with settings that belong to none of these"
    raise BadPolicyFile(
        f"this looks like {other}, which is not supported: expected PPO, A2C, DQN, SAC, TD3, DDPG, "
        "TRPO, QR-DQN, TQC or RecurrentPPO"
    )


def _features(settings: SB3Settings, tensors: Tensors) -> Features | None:
    """Find what is before the network; refuse what is not known."""
    space, shape = settings.mapping("observation_space"), settings.shape("observation_space")
    extractor = settings.argument("features_extractor_class")
    scaled = bool(settings.argument("normalize_images", True))
    features, spoken = None, None
    if extractor is not None and extractor not in KNOWN_EXTRACTORS:
        spoken = "a policy with a features extractor of its own"
    elif settings.policy_module not in POLICY_MODULES:
        spoken = f"a policy class of {settings.policy_module[:80]}"
    else:
        features = read_extractor(tensors, space, shape, scaled)
        if features is None and any("features_extractor." in key for key in tensors):
            spoken = "a policy with a features extractor of its own"
        elif (
            features is None and space.get("dtype") == "uint8" and scaled and len(shape or ()) == 3
        ):
            spoken = "image observations without a CNN"
    if spoken is not None:
        raise BadPolicyFile(
            f"it has {spoken}, which is not supported: expected MLPs, NatureCNN or "
            "CombinedExtractor"
        )
    return features
