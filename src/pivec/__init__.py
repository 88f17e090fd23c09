"""Characterizes decision-making agents by the states they visit, compares them, shows differences.

Packages, in the order of the data; each imports only from those before it:

parallel           this process, local processes, or a Ray cluster
policies           the policy protocol, and loaders for common formats
rollouts           running policies: episodes, seeds, vectorized environments
states             `VisitedStates` in memory, `Store` on disk, readers for other formats
mixtures           the background model: sufficient statistics, EM, MAP
statistics         distances, intervals, tests, planning, groups
characterizations  how a policy is described: one contract, one file per family
explanations       decompositions, regions, runs, unusual episodes, replay
report             tables, figures, the HTML page
workflows          collect, compare, same, plan, watch, evaluate
integrations       Stable-Baselines3, Gymnasium, pyribs
server, cli        the live page and the command line

The names in ``__init__.pyi`` are imported on first use, so that ``import pivec`` is fast.
"""

import signal
import sys

# Ctrl-C while the first modules are imported would print a traceback.
_is_command = sys.orig_argv[1:3] == ["-m", "pivec"] or "".join(sys.orig_argv[1:2]).endswith(
    "/pivec"
)
if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from pivec.lazy import lazy_exports  # noqa: E402

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
__all__ += ["__version__"]
