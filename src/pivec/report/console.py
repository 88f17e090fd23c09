"""What commands print about comparisons, stores, verdicts and plans."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement

import numpy as np

from pivec.files import atomic_write
from pivec.policies import PolicyInfo, environment_names
from pivec.report.findings import UNSURE, Findings, PairRow, PolicyRow
from pivec.states import Store
from pivec.statistics import LEVEL, POWER, EquivalenceTest, Plan, ViewResult
from pivec.terminal import print_table, printable, say, text_columns
from pivec.text import capitalized, interval, n_policies, percent, rounded

_PLAN_ROWS = 20  # policies in the table of a plan
_POLICIES, _OUTCOMES = 12, 2  # with returns and outcomes
_KINDS = 4  # of episodes, and pairs whose episodes differ
_DATASETS = 6  # whose coverage and drift are printed
_VIEWS = 6  # of a verdict that are printed
_ROUNDING = 1e-12  # of a distance


def print_summary(findings: Findings) -> None:
    """Print a short summary: whether policies behave differently, and by how much."""
    _print_policies(findings)
    measured = findings.measured
    rows = [
        (title, row)
        for title, pairs in zip(("nearest", "farthest"), findings.listed_pairs(3), strict=True)
        for row in findings.rows_of(pairs)
    ]
    sure = any(math.isfinite(row.low) for _, row in rows)
    shared = any(math.isfinite(row.overlap) for _, row in rows)

    def distance(row: PairRow) -> str:
        shown = f"{row.distance:.{3 if sure else 4}g}"
        if math.isfinite(row.low):
            shown += f" ({interval(row.low, row.high)}){' *' * row.alike}"
        return shown

    heading = f"distance ({percent(LEVEL)} interval)" if sure else "distance"
    columns = text_columns("", "policy", "policy", heading, "apart", left=range(4), names=(1, 2))
    lines = (
        (title, row.policy, row.other, distance(row), percent(1 - row.overlap))
        for title, row in rows
    )
    if rows:
        print_table(columns if shared else columns[:-1], lines)
    if measured.n_known:
        count = f"{len(measured.alike)} of {measured.n_known} pairs"
        starred = any(row.alike for _, row in rows)
        say(f"* {UNSURE}: {count}" if starred else f"{count} {UNSURE}; those above differ")
    if findings.behaviours:
        margin = f"mean distance up to {findings.behaviours.margin:.2g}"
        say(f"{findings.behaviours_words} ({margin}; see map.csv)")
    if findings.kinds is not None and len(findings.kinds) > 1:
        say(f"{findings.kinds.headline()} (shares of each policy are in kinds.csv):")
        for kind in findings.kinds.kinds[:_KINDS]:
            say(f"  {kind.number}: {percent(kind.share)} of episodes, {kind.name}")
    if (datasets := findings.datasets) is not None:
        for line in datasets.coverage[:_DATASETS]:
            say(line)
        if len(datasets.coverage) > _DATASETS:
            say(f"and {len(datasets.coverage) - _DATASETS} more in coverage.csv")
        for drift in datasets.drifting[:_DATASETS]:
            say(capitalized(drift.words))
        if len(datasets.drifting) > _DATASETS:
            say(f"and {len(datasets.drifting) - _DATASETS} more in drift.csv")
        if datasets.steady:
            say(capitalized(datasets.steady))
        say(capitalized(datasets.words) + " (see duplicates.csv)" * bool(datasets.duplicates))
    for a, b, p, _ in findings.unlike_episodes[:_KINDS]:
        say(f"{a} and {b} {UNSURE} on average, but their episodes differ (p = {p:.2g})")
    for heading, contrasts in findings.contrasts.items():
        say(f"{capitalized(heading)}:")
        for line in contrasts:
            say(f"  {line}")
    if shared:
        say("apart: share of their time that the two policies spend in different regions")
    if findings.distances_note:
        say(findings.distances_note)
    if measured.travels:
        runs = sorted(measured.travels, key=lambda run: -run.total)[:10]
        halves = ("" if r.half_widths is None else f" ± {r.half_widths[-1]:.2g}" for r in runs)
        print_table(
            text_columns("run", "checkpoints", "distance travelled", left=(0, 2), names=(0,)),
            [
                (run.group, str(len(run.rows)), f"{run.total:.4g}{half}")
                for run, half in zip(runs, halves, strict=True)
            ],
        )


def _print_policies(findings: Findings) -> None:
    """Print returns and outcomes of the policies, or of the last one of each run if many."""
    policies, outcomes = findings.policies, findings.outcomes[:_OUTCOMES]
    rows = [i for i in policies.order.tolist() if not policies[i].reference]
    if not outcomes and all(math.isnan(policies[i].mean_return) for i in rows):
        return
    if len(rows) > _POLICIES:
        inner = {i for run in policies.runs.values() for i in run[:-1]}
        rows = [i for i in rows if i not in inner]
    shown, left = rows[:_POLICIES], len(policies.compared) - len(rows[:_POLICIES])

    def returns(row: PolicyRow) -> str:
        spread = "" if math.isnan(row.return_std) else f" ± {rounded(row.return_std, 3)}"
        return rounded(row.mean_return) + spread

    print_table(
        text_columns("policy", "return ± SD", *(o.name for o in outcomes), names=(0,)),
        [
            (policies[i].label, returns(policies[i]), *(o.words(i) or "–" for o in outcomes))
            for i in shown
        ],
    )
    if left:
        say(f"and {n_policies(left)} more, see map.csv")


def print_environment(settings: Mapping[str, Any], policies: Sequence[PolicyInfo]) -> None:
    """Print the environment that the policies' files name, or that states were recorded."""
    parts = [environment_names(settings.get("environment"), policies) or "not known"]
    if settings.get("backend") == "recorded":
        say(f"Recorded states; nothing is simulated. Environment: {parts[0]}")
        return
    if any(info.own_environment for info in policies):
        say(f"Environments: {parts[0]}")
        return
    if settings.get("arguments"):
        parts.append(f"arguments {settings['arguments']}")
    if settings.get("wrappers"):
        parts.append(f"wrappers {[wrapper.get('name') for wrapper in settings['wrappers']]}")
    say(f"Environment (from the policy files): {', '.join(parts)}")


def print_normalisers(policies: Sequence[PolicyInfo]) -> None:
    """Print the normalisers of the policies' observations, so that a wrong one is noticed."""
    applied = Counter(str(info.metadata.get("normaliser") or "") for info in policies)
    for name, count in applied.items():
        if name:
            say(f"Observation normaliser of {n_policies(count)}: {name}")


def print_store(store: Store) -> None:
    """Print the policies of a store, one row per policy."""
    environment = environment_names(store.settings.get("environment"), store.policies)
    say(f"{environment}, {len(store)} policies" if environment else f"{len(store)} policies")
    names = ("group", "step", "episodes", "states")
    print_table(
        text_columns("policy", *names, "mean return", left=(0, 1), names=(0, 1)),
        [
            (
                label,
                *("" if row[name] is None else str(row[name]) for name in names),
                f"{row['mean_return']:.4g}",
            )
            for label, row in store.rows.items()
        ],
    )


def headline(answer: EquivalenceTest) -> str:
    """Return the verdict as a sentence."""
    a, b = answer.labels
    if answer.verdict != "unclear":
        return f"{a} and {b}: {'the same' if answer.verdict == 'same' else 'different'}"
    more = answer.more_episodes
    how = "more episodes are" if more is None else f"about {more:,} more episodes of each are"
    how = "one more episode of each is" if more == 1 else how
    what = "different, size unclear" if answer.is_significant else "unclear"
    return f"{a} and {b}: {what}, {how} needed"


def reasons(answer: EquivalenceTest) -> list[str]:
    """Return the numbers behind the verdict, one line each."""
    n, sure = len(answer.views), f"{100 * answer.level:g} % confidence"
    views = sorted(answer.views, key=lambda view: -view.high / view.margin)
    if answer.verdict == "same":
        where = f"all {n} views" if n > 1 else answer.views[0].name
        heading = f"below the margin in {where} with {sure}" + "; the largest bounds" * (n > 1)
    else:
        different = answer.verdict == "different"
        found = [v for v in views if (v.is_beyond if different else not v.is_within)]
        views = answer.differing if different else found
        where = f"{len(found)} of {n} views" if n > 1 else answer.views[0].name
        heading = f"{'beyond' if different else 'not below'} the margin in {where} with {sure}"
        heading += ", among them" * (len(found) > min(len(views), _VIEWS))
    lines = [f"{heading}:", *(_view_words(view, answer.method) for view in views[:_VIEWS])]
    pairs = f", compared by the same {answer.pair}" if answer.pair else ""
    lines.append(f"from {answer.episodes[0]} and {answer.episodes[1]} episodes{pairs}")
    if answer.planned is not None and math.isfinite(answer.planned):
        lines.append(f"a plan of fixed size would need about {answer.planned:,.0f} of each")
    what = "beyond a margin" if answer.test == "sequential" else "in any view"
    lines.append(f"p = {answer.p_value:.3g} ({answer.test} test of no difference {what})")
    moves = answer.views[0]
    if answer.overlap is not None and moves.name == "moves" and moves.low > 0.0:
        apart = 100 * (1 - answer.overlap)
        lines.append(f"they spend {apart:.0f} % of their time in different regions")
    if answer.verdict == "same" and answer.is_significant:
        lines.append("there is a difference, but it is smaller than the margins")
    return lines


def _view_words(view: ViewResult, method: str) -> str:
    """Return the distance in one view in words."""
    high = 0.0 if view.high < _ROUNDING else view.high
    if method == "visitation":  # squared Hellinger distances; bounds from few episodes exceed 1
        high = min(high, 1.0)
    reach = "no interval" if math.isnan(high) else f"{view.low:.3g} to {high:.3g}"
    words = f"{view.name}: distance {max(view.distance, 0.0):.3g} ({reach}), margin {view.margin:g}"
    return f"{words}; {view.words}" if view.words else words


def print_verdict(answer: EquivalenceTest) -> None:
    """Print the verdict and its reasons."""
    say(headline(answer))
    for line in reasons(answer):
        say(f"  {line}")


def write_junit(path: str | Path, answer: EquivalenceTest, seconds: float) -> None:
    """Write the result as a JUnit test that passes if the policies behave the same."""
    passed = answer.verdict == "same"
    counts = {"tests": "1", "failures": str(int(not passed)), "errors": "0"}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": "pivec same", **counts})
    a, b = map(printable, answer.labels)
    name = {"classname": "pivec.same", "name": f"{b} behaves like {a}", "time": f"{seconds:.3f}"}
    case = SubElement(suite, "testcase", name)
    failure = {"message": printable(headline(answer)), "type": answer.verdict}
    told = SubElement(case, "system-out") if passed else SubElement(case, "failure", failure)
    told.text = "\n".join(map(printable, reasons(answer)))
    with atomic_write(path) as file:
        ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def print_plan(plan: Plan) -> None:
    """Print how many episodes each policy needs, largest number first."""
    needs = {f"± {plan.precision:g} to all": plan.to_all(plan.for_precision)}
    if len(plan.labels) > 1:
        needs[f"± {plan.precision:g} to its nearest"] = plan.to_nearest
    if plan.to_decide is not None:
        needs[f"same, margin {plan.margin:g}"] = plan.to_all(plan.to_decide)
    order = np.argsort(-next(iter(needs.values())), kind="stable").tolist()
    say(f"Episodes needed per policy, estimated from {plan.pilot} episodes each:")
    print_table(
        text_columns("policy", *needs, names=(0,)),
        [
            (
                plan.labels[i],
                *(f"{int(n[i]):,}" if math.isfinite(n[i]) else "–" for n in needs.values()),
            )
            for i in order[:_PLAN_ROWS]
        ],
    )
    if len(order) > _PLAN_ROWS:
        say(f"and {len(order) - _PLAN_ROWS} policies that need fewer; --json prints all pairs")
    say(f"±: half-width of the {100 * plan.level:g} % interval of a distance")
    if plan.to_decide is not None:
        say(f"same: `pivec same` finds equal behaviour the same in {100 * POWER:g} % of cases")


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return plain values; None if no number of episodes suffices."""

    def plain(matrix: Any) -> Any:
        if matrix is None:
            return None
        return [[int(x) if math.isfinite(x) else None for x in row] for row in matrix.tolist()]

    return {
        "policies": list(plan.labels),
        "pilot": plan.pilot,
        "precision": plan.precision,
        "level": plan.level,
        "for_precision": plain(plan.for_precision),
        "margin": plan.margin,
        "to_decide": plain(plan.to_decide),
    }


def say_json(content: dict[str, Any]) -> None:
    """Print one object on one line."""
    say(json.dumps(content, allow_nan=False))
