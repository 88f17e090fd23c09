"""A small comparison and its server, for all tests of this folder."""

from __future__ import annotations

import shutil

import pytest
from served_folders import client_of, leave


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "out"
    leave(folder)
    return folder


@pytest.fixture
def out(made, tmp_path):
    """Give a copy of the comparison that may be changed."""
    return shutil.copytree(made, tmp_path / "out")


@pytest.fixture(scope="session")
def served(made):
    return client_of(made)
