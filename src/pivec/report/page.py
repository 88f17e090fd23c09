"""The page of a comparison."""

from __future__ import annotations

import os

from pivec.report.data import ReportData


def write_report(path: str | os.PathLike[str], report: ReportData) -> None:
    """Write the page."""
    raise NotImplementedError
