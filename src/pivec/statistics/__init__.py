"""How far apart descriptions are, and what to read off the distances of many policies.

pairwise.py the distances of all rows of two sets (pairwise_torch.py: on a graphics card)
method.py   what they are measured with: as much of a characterization as is needed here
pairs.py    the nearest and the farthest pairs, and how sure their distances are
travel.py   the distance a training run travels, checkpoint by checkpoint
measured.py these and each policy's nearest others, however many policies there are
discoveries.py  many tests at once: q-values
behaviours.py   classes of policies that cannot be told apart
groups.py   whether groups of runs differ, and how diverse each one is
settling.py when a run has settled: its behaviour does not change any more
"""

from __future__ import annotations

from pivec.statistics.behaviours import Behaviours
from pivec.statistics.convergence import SettlingRule
from pivec.statistics.equivalence import (
    MARGIN,
    POWER,
    Plan,
    Sameness,
    decide,
    episodes_for_precision,
    episodes_for_verdict,
    episodes_to_decide,
    noise_left,
)
from pivec.statistics.evaluation import (
    FEWEST_POLICIES,
    Average,
    Evaluation,
    Row,
    Summary,
    checked_distances,
    distance_variance,
    mean_known,
    pair_errors,
    print_evaluation,
    return_correlation,
    told_apart,
)
from pivec.statistics.groups import (
    Estimate,
    Permanova,
    effective_number,
    mean_between,
    mean_within,
    permanova,
    run_distances,
    shares_of,
)
from pivec.statistics.intervals import (
    LEVEL,
    RATE,
    Intervals,
    Parts,
    PermutationTest,
    Spread,
    benjamini_hochberg,
    directional_variances,
    gram_spread,
    intervals_of,
    mean_differences,
    paired_variances,
    parts_of,
    share_as_large,
    sides,
    spread_of,
)
from pivec.statistics.pairs import (
    Pair,
    Pairs,
    Travel,
    farthest_pairs,
    nearest_of_rows,
    nearest_pairs,
    sampled_travel,
    travels,
)
from pivec.statistics.pairwise import (
    arranged,
    euclidean,
    matched_kl,
    paired_squares,
    squared_euclidean,
    symmetric_kl_diagonal,
    symmetric_kl_full,
    total_variation,
)

__all__ = [
    "FEWEST_POLICIES",
    "LEVEL",
    "MARGIN",
    "POWER",
    "RATE",
    "Average",
    "Behaviours",
    "Estimate",
    "Evaluation",
    "Intervals",
    "Pair",
    "Pairs",
    "Parts",
    "Permanova",
    "PermutationTest",
    "Plan",
    "Row",
    "Sameness",
    "SettlingRule",
    "Spread",
    "Summary",
    "Travel",
    "arranged",
    "benjamini_hochberg",
    "checked_distances",
    "decide",
    "directional_variances",
    "distance_variance",
    "effective_number",
    "episodes_for_precision",
    "episodes_for_verdict",
    "episodes_to_decide",
    "euclidean",
    "farthest_pairs",
    "gram_spread",
    "intervals_of",
    "matched_kl",
    "mean_between",
    "mean_differences",
    "mean_known",
    "mean_within",
    "nearest_of_rows",
    "nearest_pairs",
    "noise_left",
    "pair_errors",
    "paired_squares",
    "paired_variances",
    "parts_of",
    "permanova",
    "print_evaluation",
    "return_correlation",
    "run_distances",
    "sampled_travel",
    "share_as_large",
    "shares_of",
    "sides",
    "spread_of",
    "squared_euclidean",
    "symmetric_kl_diagonal",
    "symmetric_kl_full",
    "told_apart",
    "total_variation",
    "travels",
]
