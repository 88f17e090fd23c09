"""The command line: parse arguments, call the library, print results."""

from __future__ import annotations

from pivec.cli.main import app, main

__all__ = ["app", "main"]
