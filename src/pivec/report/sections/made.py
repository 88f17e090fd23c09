"""How the comparison was made: command, settings, timings, versions."""

from __future__ import annotations

from collections.abc import Mapping

from pivec.report.data import ReportData
from pivec.report.markup import section, shown_text


def made_section(report: ReportData) -> str:
    """Show what run.json holds."""
    command = f'<pre class="command">{shown_text(report.command)}</pre>' if report.command else ""
    timings = {key: f"{seconds:.3g} s" for key, seconds in report.timings.items()}
    if len(timings) > 1:
        timings["in all"] = f"{sum(report.timings.values()):.3g} s"
    tables = (
        _facts("Settings", report.settings)
        + _facts("Time taken", timings)
        + _facts("Versions", report.versions)
    )
    return section("made", "How it was made", f'{command}<div class="facts">{tables}</div>')


def _facts(heading: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    body = "".join(
        f"<tr><td>{shown_text(str(key))}</td><td>{shown_text(str(value))}</td></tr>"
        for key, value in facts.items()
    )
    return f"<div><h3>{heading}</h3><table><tbody>{body}</tbody></table></div>"
