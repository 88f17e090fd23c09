"""What to know about the run: pivec's own warnings, and folded away those of other packages."""

from __future__ import annotations

from collections.abc import Sequence

from pivec.notices import Notice
from pivec.report.data import ReportData
from pivec.report.markup import MAX_ROWS, section, shown_text
from pivec.text import thousands


def notices_section(report: ReportData) -> str:
    """List the warnings that were raised on the way."""
    own = [notice for notice in report.log.warnings if notice.own]
    others = [notice for notice in report.log.warnings if not notice.own]
    if not own and not others:
        return ""
    folded = (
        f'<details class="note"><summary>Warnings of other packages ({len(others)})</summary>'
        f"{_list(others)}</details>"
    )
    return section(
        "notices",
        "What to know about this run",
        _list(own) if own else "",
        folded if others else "",
    )


def _list(notices: Sequence[Notice]) -> str:
    items = (
        f"<li>{'' if notice.own else f'{shown_text(notice.kind)}: '}{shown_text(notice.text)}"
        f"{f' ({thousands(notice.times)} times)' if notice.times > 1 else ''}</li>"
        for notice in notices[:MAX_ROWS]
    )
    rest = len(notices) - MAX_ROWS
    more = f"<li>and {thousands(rest)} more, see run.json</li>" if rest > 0 else ""
    return f'<ul class="notices">{"".join(items)}{more}</ul>'
