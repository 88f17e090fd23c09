"""Every figure and table of the paper, as recipes that run at three scales.

recipes/     one module per figure or table: what it needs, how it is made, what it shows
worlds/      the paper's own environments
training/    PPO, A2C, NEAT, CMA-ES, ES, NSR-ES, cloning and trust regions with checkpoints
pipeline     stages that recipes share (train, collect, compute), cached by their inputs
supervectors, evaluations   descriptions of the policies of many runs; the paper's metrics
runner       `reproduce`: run recipes, write figures, numbers and pages
claims       the claims of the paper (claims.toml) judged by the numbers
planning     `plan`: the steps of recipes with the time and disk to expect
published    the paper's own numbers (published.toml); notes/ is for readers
tables       rows of numbers, and statistics of their columns

A recipe is a `RECIPE` in its module, with ``needs`` (what is trained, collected and computed),
``make`` (does it through the pipeline and returns numbers and figures) and ``judge`` (tables and
findings from the numbers alone); recipes.toml has its counts per scale, and findings.toml the
sentences that are judged. Run ``python -m reproduction --help``.
"""

from __future__ import annotations

import reproduction.worlds  # noqa: F401  (registers the environments)
from reproduction.claims import retell, verify
from reproduction.planning import plan
from reproduction.recipes import NAMES, recipe
from reproduction.runner import reproduce

__all__ = ["NAMES", "plan", "recipe", "reproduce", "retell", "verify"]
