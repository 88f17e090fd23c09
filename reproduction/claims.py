"""What is said of numbers: the pages of recipes, and the table of all claims of the paper.

Everything here follows from ``numbers.json`` alone, so it can be made anew, and checked, at any
time (`retell`, `verify`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pivec.errors import BadData, UsageError
from pivec.files import atomic_write
from reproduction.published import short, toml
from reproduction.recipes import Account, Finding, Recipe, recipe
from reproduction.tables import markdown

NUMBERS, PAGE, CSV, INDEX = "numbers.json", "README.md", "numbers.csv", "index.md"
_HOLDS = {True: "holds", False: "**does not**", None: "cannot be told"}
_Entry = tuple[Sequence[Path], str, Finding]  # where it was found, at which scale
_BEST_FIRST = ("paper", "small", "smoke")  # which scale the table of claims takes


@dataclass(frozen=True)
class Measured:
    """Numbers of a recipe, and what they were measured with."""

    recipe: Recipe
    scale: str
    counts: Any
    numbers: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path) -> Measured:
        """Read ``numbers.json``."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            made, scale = recipe(content.pop("recipe")), content.pop("scale")
            given = content.pop("counts")
            kind = type(next(iter(made.counts.values())))
            counts = kind(
                **{key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
            )
            content.pop("findings")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadData(f"{file} holds no numbers of a recipe ({error!r})") from error
        return cls(made, scale, counts, content)

    @property
    def account(self) -> Account:
        """What the recipe says of them; a try of seconds proves nothing, if not made for it."""
        account = self.recipe.judge(self.numbers, self.counts)
        if self.scale == "smoke" and not self.recipe.judged_at_smoke:
            findings = [replace(finding, holds=None) for finding in account.findings]
            account = replace(account, findings=findings)
        return account

    def texts(self, figures: Sequence[str]) -> dict[str, str]:
        """Write the files of the folder that hold text, by name; ``figures`` stand beside them."""
        # As they are read again, so that the page follows from the file to the last digit.
        again = replace(self, numbers=json.loads(json.dumps(self.numbers, default=float)))
        account, table = again.account, io.StringIO()
        if account.rows:
            writer = csv.DictWriter(table, list(account.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(account.rows)
        content = {
            "recipe": self.recipe.name,
            "scale": self.scale,
            "counts": vars(self.counts),
            "findings": [vars(finding) for finding in account.findings],
            **again.numbers,
        }
        return {
            NUMBERS: json.dumps(content, indent=1, default=float) + "\n",
            CSV: table.getvalue(),
            PAGE: again.page(account, figures),
        }

    def page(self, account: Account, figures: Sequence[str]) -> str:
        """Write the page: what the recipe shows, the figures, ours beside the paper's."""
        amounts = ", ".join(
            f"{field.name} {_shown(getattr(self.counts, field.name))}"
            for field in fields(self.counts)
        )
        parts = [f"# {self.recipe.name}", self.recipe.shows + "."]
        parts += [f"Scale `{self.scale}`: {amounts}."]
        parts += [f"![{name}]({name}.png)" for name in figures]
        if account.findings:
            lines = [
                [_claim(finding), finding.paper, finding.ours, _HOLDS[finding.holds], finding.why]
                for finding in account.findings
            ]
            parts.append(markdown(["claim", "paper", "ours", "", "why"], lines))
        if account.tables:
            parts.append(account.tables.strip())
        if account.notes:
            parts.append("\n".join(f"- {note}" for note in account.notes))
        return "\n\n".join(parts) + "\n"


def _claim(finding: Finding) -> str:
    return f"{short(finding.place)}: {finding.claim}" if finding.place else finding.claim


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(str, value)) + ")"
    return f"{value:,}" if isinstance(value, int) else str(value)


def retell(folder: Path) -> list[Path]:
    """Write all that follows from the numbers below a folder; returns the files that changed."""
    changed = []
    for file, text in _expected(folder):
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            with atomic_write(file, "w") as stream:
                stream.write(text)
            changed.append(file)
    return changed


def verify(folder: Path) -> list[str]:
    """Tell what does not follow from the numbers below a folder, a line each."""
    wrong = []
    expected = dict(_expected(folder))
    for file, text in expected.items():
        given = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        pairs = zip_longest(given, text.splitlines(), fillvalue="")
        for number, (line, right) in enumerate(pairs, 1):
            if line != right:
                wrong.append(f"{file}:{number}: {line!r} should be {right!r}")
                break
    wrong += [
        f"{file} does not come from any numbers"
        for file in sorted(folder.rglob("*"))
        if file.suffix in (".md", ".csv") and file not in expected
    ]
    wrong += [
        f"{file.parent} has no run.json, which tells what made its numbers"
        for file in _numbers(folder)
        if not (file.parent / "run.json").exists()
    ]
    return wrong


def _numbers(folder: Path) -> list[Path]:
    files = sorted(folder.rglob(NUMBERS))
    if not files:
        raise UsageError(f"{folder} has no results: expected folders with {NUMBERS} in it")
    return files


def _expected(folder: Path) -> Iterator[tuple[Path, str]]:
    """Give the files that follow from numbers, and what they should hold."""
    for file in _numbers(folder):
        figures = [figure.stem for figure in sorted(file.parent.glob("*.png"))]
        for name, text in Measured.read(file).texts(figures).items():
            yield file.with_name(name), text
    yield folder / INDEX, index(folder)


def index(folder: Path) -> str:
    """Write the table of all claims of the paper, beside what came out in the results there."""
    results = [(file, Measured.read(file)) for file in _numbers(folder)]
    results.sort(key=lambda pair: _BEST_FIRST.index(pair[1].scale))
    known: dict[tuple[str, str], list[_Entry]] = {}
    for files, measured, findings in _judged(results):
        for finding in findings:
            entries = known.setdefault((finding.of, finding.place), [])
            if not entries or entries[0][1] == measured.scale:  # the best scale alone
                entries.append((files, measured.scale, finding))
    lines = [
        line
        for number, claim in enumerate(toml("claims")["claims"], 1)
        for line in _lines(number, claim, known, folder)
    ]
    held = [sum(line[-2] == text for line in lines) for text in (*_HOLDS.values(), "not run")]
    counted = (
        f"{held[0]} hold, {held[1]} do not, {held[2]} cannot be told, {held[3]} were not run; "
        "a claim that the paper makes for several environments counts in each."
    )
    heads = ["no.", "the paper's words", "judged", "paper", "ours", "scale", "", "why"]
    intro = toml("claims")["introduction"].strip()
    pages = [
        f"- [{file.parent.name}, {measured.scale}]({_link(file, folder)}): {measured.recipe.shows}"
        for file, measured in sorted(results, key=lambda pair: str(pair[0]))
    ]
    parts = ["# Results", intro, counted, markdown(heads, lines), "## Pages", "\n".join(pages)]
    return "\n\n".join(parts) + "\n"


def _judged(
    results: Sequence[tuple[Path, Measured]],
) -> Iterator[tuple[Sequence[Path], Measured, Sequence[Finding]]]:
    """Give findings with the files they come from."""
    groups: dict[tuple[str, str], list[tuple[Path, Measured]]] = {}
    for file, measured in results:
        groups.setdefault((measured.recipe.name, measured.scale), []).append((file, measured))
    for group in groups.values():
        files, parts = [file for file, _ in group], [measured for _, measured in group]
        places = [place for part in parts for place in getattr(part.counts, "environments", ())]
        together = len(parts) > 1 and len(set(places)) == len(places) >= len(parts)
        for file, part in group:
            findings = part.account.findings
            yield [file], part, [known for known in findings if known.place or not together]
        if together:
            counts = replace(parts[0].counts, environments=tuple(places))
            numbers = reduce(_joined, (part.numbers for part in parts))
            all_of_it = replace(parts[0], counts=counts, numbers=numbers)
            shared = [finding for finding in all_of_it.account.findings if not finding.place]
            yield files, all_of_it, shared


def _joined(first: Any, second: Any) -> Any:
    """Put lists after one another, in mappings by key; all else must be the same in both."""
    if first == second:
        return first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        shared = {key: _joined(first[key], second[key]) for key in first if key in second}
        return {**first, **second, **shared}
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    raise BadData(f"results of one recipe do not fit together: {first!r} and {second!r}")


def _link(file: Path, folder: Path) -> str:
    return (file.parent / PAGE).relative_to(folder).as_posix()


def _links(files: Sequence[Path], scale: str, folder: Path) -> str:
    """Name the scale, with links to the pages; those of several by the names of their folders."""
    if len(files) == 1:
        return f"[{scale}]({_link(files[0], folder)})"
    pages = [f"[{file.parent.name}]({_link(file, folder)})" for file in sorted(files)]
    return f"{scale}: {', '.join(pages)}"


def _lines(
    number: int,
    claim: Mapping[str, Any],
    known: Mapping[tuple[str, str], Sequence[_Entry]],
    folder: Path,
) -> Iterator[list[str]]:
    """Give the lines of a claim: one for each place and finding."""
    words, where = f"“{claim['words']}”", claim["where"]
    for place in ["", *claim.get("places", [])]:
        entries = known.get((claim["key"], place), [])
        for files, scale, finding in entries:
            cells = [finding.paper, finding.ours, _links(files, scale, folder)]
            head = [f"{number}", f"{words} ({where})" if words else "", _claim(finding)]
            yield [*head, *cells, _HOLDS[finding.holds], finding.why]
            words = ""
        if not entries and (place or "places" not in claim):
            head = [f"{number}", f"{words} ({where})" if words else "", short(place)]
            why = claim.get("not_run", "")
            yield [*head, claim.get("number", ""), "", "", "not run", why]
            words = ""
