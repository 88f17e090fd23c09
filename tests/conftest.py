"""Fixtures that all tests share."""

from __future__ import annotations

from shared_fixtures import *  # noqa: F403
