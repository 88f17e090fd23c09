"""One unreadable file among many: an error that names a way out, or skipped and named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pivec.errors import BadPolicyFile, PivecWarning
from pivec.policies import NetworkPolicy, load_policies, name_policies, save_policy


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("b", "c"):
        layers = ((rng.normal(size=(4, 2)), np.zeros(2)),)
        save_policy(NetworkPolicy(layers, "tanh", "categorical"), tmp_path / f"{name}.safetensors")
    for name in ("a", "d"):
        (tmp_path / f"{name}.safetensors").write_bytes(b"nothing of the kind")
    return tmp_path


def test_the_error_names_the_option_if_another_file_can_be_read(files):
    with pytest.raises(BadPolicyFile, match=r"a\.safetensors.*--skip-unreadable"):
        load_policies(files)
    with pytest.raises(BadPolicyFile) as alone:
        load_policies(files / "a.safetensors")
    assert "--skip-unreadable" not in str(alone.value)


def test_what_cannot_be_read_is_skipped_and_named_once_for_a_reason(files):
    (files / "e.safetensors").write_bytes(b"")
    with pytest.warns(PivecWarning) as told:
        named = name_policies(str(files), skip_unreadable=True)
    assert [policy.info.label[-1] for policy in named] == ["b", "c"]
    texts = sorted(str(warning.message) for warning in told)
    assert len(texts) == 2
    assert texts[0].startswith(f"{files}/a.safetensors, {files}/d.safetensors cannot be read: ")
    assert texts[0].endswith("; skipped")
    assert texts[1] == f"{files}/e.safetensors is empty; skipped"


def test_if_none_is_left_it_is_an_error(files):
    bad = [files / "a.safetensors", files / "d.safetensors"]
    with pytest.raises(BadPolicyFile, match="other 1 files"):
        load_policies(bad, skip_unreadable=True)
    with pytest.warns(PivecWarning, match="skipped"):
        (chance,) = load_policies([*bad, "random"], skip_unreadable=True)
    assert chance.info.label == "random"


def test_console_run_and_page_name_it(files, run):
    done = run("compare", "CartPole-v1", str(files), "--episodes", 2, "--components", 2,
               "--out", files / "out", "--skip-unreadable")  # fmt: skip
    assert "a.safetensors" in done.err
    record = json.loads((files / "out" / "run.json").read_text())
    assert "d.safetensors" in record["warnings"]["collect"][0]["text"]
    assert "d.safetensors" in (files / "out" / "report.html").read_text()
