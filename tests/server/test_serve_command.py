"""`pivec serve` as people call it: an address, an orderly end, mistakes as sentences."""

from __future__ import annotations

import builtins
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from served_folders import describe


def test_a_folder_without_a_space_and_a_port_that_is_taken_are_sentences(run, made, tmp_path):
    said = run("serve", tmp_path, code=2).err
    assert "holds no space" in said
    describe(tmp_path / "half")
    assert "no positions on a map yet" in run("serve", tmp_path / "half", code=2).err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = run("serve", made, "--port", taken.getsockname()[1], code=2).err
    assert "cannot listen on port" in said
    assert said.count("\n") == 1
    assert "--port" in run("serve", made, "--port", 70000, code=2).err


def test_without_the_extra_it_says_what_to_install(run, made, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.split(".")[0] in ("starlette", "uvicorn"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert 'pip install "pivec[serve]"' in run("serve", made, code=1).err


def test_it_prints_an_address_and_ends_at_ctrl_c(made):
    command = [sys.executable, "-m", "pivec", "serve", str(made / "space")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(4)]
        assert lines[0] == "4 policies in Walk-v0\n"
        assert "All distances are exact" in lines[3]
        address = lines[1].removeprefix("Page: ").strip()
        with urllib.request.urlopen(f"{address}version") as answer:  # the connection stays open
            assert answer.status == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (out, err, process.returncode) == ("Stopped\n", "", 0)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}version")
