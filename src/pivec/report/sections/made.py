"""How the comparison was made: command, settings, timings, versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pivec.report.data import ReportData
from pivec.report.markup import section, shown_text
from pivec.run_log import versions


def made_section(report: ReportData) -> str:
    """Show what run.json holds."""
    log = report.log
    command = f'<pre class="command">{shown_text(log.command)}</pre>' if log.command else ""
    timings = {key: f"{seconds:.3g} s" for key, seconds in log.timings.items()}
    if len(timings) > 1:
        timings["in all"] = f"{sum(log.timings.values()):.3g} s"
    tables = (
        _facts("Settings", log.settings)
        + _facts("Time taken", timings)
        + _facts("Versions", versions())
    )
    return section("made", "How it was made", f'{command}<div class="facts">{tables}</div>')


def _facts(heading: str, facts: Mapping[str, Any]) -> str:
    if not facts:
        return ""
    body = "".join(
        f"<tr><td>{shown_text(str(key))}</td><td>{shown_text(_text(value))}</td></tr>"
        for key, value in facts.items()
    )
    return f"<div><h3>{heading}</h3><table><tbody>{body}</tbody></table></div>"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return str(value)
