"""``hf:`` and ``wandb:``: policies of the Hugging Face Hub and of Weights & Biases, from copies."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pivec.cli.options import env_and_policies
from pivec.errors import MissingExtra, UsageError
from pivec.policies import load_policies, split_environment

ROWS = Path(__file__).parents[1] / "data" / "libraries"
MODEL = ROWS / "sb3-ppo" / "model.zip"
SHA = "0123456789abcdef0123456789abcdef01234567"
SETTING = "!!python/object/apply:collections.OrderedDict\n- - - {}\n    - {}\n"


@pytest.fixture
def cache(tmp_path):
    """The cache of huggingface_hub, with a model as RL Zoo publishes it."""
    home = tmp_path / "hub" / "models--sb3--ppo-CartPole-v1"
    snapshot = home / "snapshots" / SHA
    files = {
        "ppo-CartPole-v1.zip": MODEL.read_bytes(),
        "train_eval_metrics.zip": b"PK",
        "args.yml": SETTING.format("env", "CartPole-v1").encode(),
        "config.yml": SETTING.format("normalize", "false").encode(),
        "ppo-CartPole-v1/policy.pth": b"PK",
        "ppo-CartPole-v1/_stable_baselines3_version": b"2.9.2",
    }
    for i, (name, content) in enumerate(files.items()):  # which are links to blobs
        (home / "blobs").mkdir(parents=True, exist_ok=True)
        (home / "blobs" / f"{i:040x}").write_bytes(content)
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        above = "../" * (2 + name.count("/"))
        (snapshot / name).symlink_to(f"{above}blobs/{i:040x}")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(SHA)
    return snapshot


@pytest.fixture
def client(cache, monkeypatch):
    """A client that finds this snapshot; `asked` are the arguments of its calls."""
    asked = []

    def snapshot_download(*arguments, **settings):
        asked.append((*arguments, settings["revision"]))
        if arguments[0] != "sb3/ppo-CartPole-v1":
            raise OSError("404 Client Error:\n Repository Not Found")
        return str(cache)

    module = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return asked


@pytest.mark.parametrize(
    ("source", "revision"),
    [
        ("hf:sb3/ppo-CartPole-v1", None),
        ("hf:sb3/ppo-CartPole-v1:v2", "v2"),
        ("hf:sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip", None),
        ("hf:sb3/ppo-CartPole-v1:v2/*v1.zip", "v2"),
    ],
)
def test_a_repository_is_a_folder_of_policies(client, cache, source, revision):
    (named,) = load_policies(source)
    (own,) = load_policies(MODEL)
    assert client == [("sb3/ppo-CartPole-v1", revision)]
    assert named.info.fingerprint == own.info.fingerprint
    assert named.info.label == "ppo-CartPole-v1/ppo-CartPole-v1"
    assert named.info.group == "ppo-CartPole-v1"
    assert named.info.source == str(cache / "ppo-CartPole-v1.zip")
    assert named.info.metadata["environment"] == "CartPole-v1"


def test_a_repository_in_an_environment_of_its_own():
    for source in ("hf:a/b", "hf:a/b:v2/c.zip", "wandb:a/b/c:latest"):
        assert split_environment(f"{source}@CartPole-v1") == (source, "CartPole-v1")
        assert split_environment(source) == (source, None)
        assert env_and_policies([source, "random"]) == (None, [source, "random"])


def test_the_real_client_reads_its_cache(cache, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache.parents[2]))
    (named,) = load_policies("hf:sb3/ppo-CartPole-v1")
    assert named.info.source == str(cache / "ppo-CartPole-v1.zip")
    with pytest.raises(UsageError, match="hf:sb3/other cannot be fetched"):
        load_policies("hf:sb3/other")


def test_an_artifact_is_a_folder_of_policies(tmp_path, monkeypatch):
    folder = tmp_path / "artifacts" / "agent:v3"
    folder.mkdir(parents=True)
    shutil.copy(MODEL, folder / "model_500_steps.zip")
    asked = []

    def artifact(name):
        asked.append(name)
        return SimpleNamespace(download=lambda: str(folder))

    module = SimpleNamespace(Api=lambda: SimpleNamespace(artifact=artifact))
    monkeypatch.setitem(sys.modules, "wandb", module)
    (named,) = load_policies("wandb:team/walking/agent:v3")
    load_policies("wandb:team/walking/agent")
    assert asked == ["team/walking/agent:v3", "team/walking/agent:latest"]
    assert (named.info.label, named.info.step) == ("agent:v3/model_500_steps", 500)


def test_what_cannot_be_fetched_is_one_sentence(client, monkeypatch):
    with pytest.raises(UsageError, match=r"^hf:sb3/no cannot be .*404 Client Error: Repository"):
        load_policies("hf:sb3/no")
    with pytest.raises(UsageError, match="there is no policy"):
        load_policies("hf:sb3/ppo-CartPole-v1/other.zip")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r'pip install "pivec\[hub\]"'):
        load_policies("hf:sb3/ppo-CartPole-v1")
