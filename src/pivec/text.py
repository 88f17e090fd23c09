"""Names and numbers as text that is short to read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, takewhile


def without_shared_folder(names: Sequence[str]) -> list[str]:
    """Remove the folders that all names share.

    Examples
    --------
    >>> without_shared_folder(["runs/ppo/1", "runs/a2c/1", ""])
    ['ppo/1', 'a2c/1', '']
    """
    given = [name for name in names if name]
    if len(given) < 2:
        return list(names)
    folders = zip(*(name.split("/")[:-1] for name in given), strict=False)
    shared = list(takewhile(lambda column: len(set(column)) == 1, folders))
    length = sum(len(column[0]) + 1 for column in shared)
    return [name[length:] for name in names]


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to about ``width`` where they do not differ, so that they stay distinct.

    Examples
    --------
    >>> names = ["walker/seed_1/rl_model_40000_steps", "walker/seed_2/rl_model_9000_steps"]
    >>> shorten_names(names, 22)
    ['w…_1/rl…el_40000_steps', 'w…_2/rl…del_9000_steps']
    """
    different = list(dict.fromkeys(names))
    pieces = {name: _pieces(name) for name in different}
    times = Counter(piece for name in different for piece in {*pieces[name]})
    rare = {
        name: [1.0 - times[piece] / len(different) for piece in pieces[name] for _ in piece[1]]
        for name in different
    }
    room = dict.fromkeys(different, width)
    while True:
        shown = {name: _cut(name, rare[name], room[name]) for name in different}
        holders = Counter(shown.values())
        clashing = [name for name in different if holders[shown[name]] > 1 and shown[name] != name]
        if not clashing:
            return [shown[name] for name in names]
        for name in clashing:
            room[name] += 4


def _pieces(name: str) -> list[tuple[str, str]]:
    """Split a name into numbers, each with the word before it, words, and separators."""
    pieces, word = [], ""
    for piece in re.findall(r"\d+|[^\W\d_]+|[\W_]", name):
        pieces.append((word if piece.isdecimal() else "", piece))
        word = piece if piece.isalpha() else word
    return pieces


def _cut(text: str, rare: Sequence[float], width: int) -> str:
    """Cut out the longest parts that all names share, then the most common ones."""
    costs = list(rare)
    while (out := len(text) - max(width, 3) + 1) > 1:
        shared = [
            m.span() for m in re.finditer("0{4,}", "".join("0" if c == 0 else "1" for c in costs))
        ]
        if shared:
            start, end = max(shared, key=lambda ends: ends[1] - ends[0])
            out = min(out, end - start - 2)
            first = start + (end - start - out) // 2
        else:
            sums = [0.0, *accumulate(costs)]
            first = min(
                range(1, len(text) - out),
                key=lambda at: (round(sums[at + out] - sums[at], 9), abs(2 * at + out - len(text))),
            )
        text = f"{text[:first]}…{text[first + out :]}"
        costs[first : first + out] = [1.0]
    return text


def thousands(number: int) -> str:
    """Format a whole number with narrow spaces between groups of three digits."""
    return f"{number:,}".replace(",", "\u202f")


def n_policies(number: int) -> str:
    """Format a count: ``1 policy``, ``2 policies``."""
    return f"{thousands(number)} {'policy' if number == 1 else 'policies'}"


def rounded(value: float, digits: int = 4) -> str:
    """Format a number with so many significant digits, without an exponent if readable.

    Examples
    --------
    >>> rounded(1234.5678), rounded(0.000123456), rounded(1e-9), rounded(float("nan"))
    ('1235', '0.0001235', '1e-09', '–')
    """
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 10.0**digits:
        return f"{value:.{digits}g}"
    if 10.0**digits <= abs(value) < 1e7:
        return thousands(round(value))
    return f"{value:.{digits - 1}g}"


def interval(low: float, high: float, digits: int = 3) -> str:
    """Format an interval: ``0.0123 to 0.5``."""
    if math.isnan(low) or math.isnan(high):
        return "–"
    return f"{rounded(low, digits)} to {rounded(high, digits)}"


def capitalized(text: str) -> str:
    """Make the first letter upper case, and leave the others as they are."""
    return text[:1].upper() + text[1:]


def percent(share: float) -> str:
    """Format a share.

    Examples
    --------
    >>> percent(0.314), percent(0.004), percent(0.0004), percent(float("nan"))
    ('31 %', '0.4 %', '0 %', '–')
    """
    if math.isnan(share):
        return "–"
    digits = 1 if 0.0005 <= share < 0.0995 else 0
    return f"{round(100 * share, digits) + 0.0:.{digits}f} %"  # not -0


def short_number(value: float, digits: int = 4) -> str:
    """Format a training step in thousands or millions, with so many significant digits.

    Examples
    --------
    >>> short_number(250_000), short_number(1_500_000), short_number(40)
    ('250 k', '1.5 M', '40')
    """
    for scale, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= scale:
            return f"{float(f'{value / scale:.{digits}g}'):g}{unit}"
    return f"{float(f'{value:.{digits}g}'):g}"


def short_numbers(values: Sequence[float]) -> list[str]:
    """Format training steps with as few digits as keep them distinct, at least three.

    Examples
    --------
    >>> short_numbers([0, 1024, 45_056, 100_096]), short_numbers([100_000, 100_400])
    (['0', '1.02 k', '45.1 k', '100 k'], ['100 k', '100.4 k'])
    """
    different = len(set(values))
    for digits in range(3, 10):
        shown = [short_number(value, digits) for value in values]
        if len(set(shown)) == different:
            break
    return shown
