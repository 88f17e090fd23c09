"""How good a characterization is: the paper's three metrics, on the same draws for all.

metrics.py    correlation with return distance, distance error, distance variance
methods.py    what is compared: names, parameters, ready characterizations
sets.py       what it is compared on: stores of policies
unit.py       one method on one draw, with its cost, kept in one file
evaluate.py   `evaluate`: all of them, from where it was stopped
result.py     `Evaluation`: rows and averages, as CSV, Markdown and on the terminal
"""

from pivec.evaluation.evaluate import evaluate
from pivec.evaluation.metrics import (
    distance_error,
    distance_variance,
    min_max,
    pair_errors,
    return_correlation,
    told_apart,
)
from pivec.evaluation.result import Average, Evaluation, Row, Summary

__all__ = [
    "Average",
    "Evaluation",
    "Row",
    "Summary",
    "distance_error",
    "distance_variance",
    "evaluate",
    "min_max",
    "pair_errors",
    "return_correlation",
    "told_apart",
]
