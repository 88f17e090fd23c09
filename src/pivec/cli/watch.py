"""The command `watch`: parse, call, print."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from pivec.cli.options import Env, Folder, Policies, Quiet, env_and_policies, with_options
from pivec.options import CollectOptions, DescribeOptions, WatchOptions
from pivec.terminal import say


@with_options
def watch(
    env: Env,
    policies: Policies = None,
    out: Folder = Path("pivec-out"),
    *,
    watching: WatchOptions,
    collecting: CollectOptions,
    describing: DescribeOptions,
    quiet: Quiet = False,
) -> None:
    """Compare checkpoints while training writes them, until Ctrl-C.

    Looks for new checkpoints, lets them play, and places them beside the others: all that
    `pivec compare` leaves in DIR is written anew, and a page that `pivec serve DIR` shows grows.
    Folders and globs need not be there yet.

    The first --at-least checkpoints fit the space, which then stays; column [bold]placed[/bold] of
    map.csv tells who came later. A checkpoint that is deleted later stays in DIR; one that is
    written over is replaced.

    Run the same command again to go on after a stop.

    Example: pivec watch CartPole-v1 runs/ --out live --episodes 20
    """
    from pivec.files import check_folder
    from pivec.run_log import RunLog
    from pivec.text import n_policies
    from pivec.workflows import watch_with

    named, acting = env_and_policies(env, policies)
    log = RunLog(check_folder(out), shlex.join(["pivec", *sys.argv[1:]]))
    rounds = watch_with(named, acting, log, collecting, describing, watching, not quiet)
    for part in rounds:
        n_all = len(part.space.descriptions) - part.space.n_reference
        words = f"{len(part.new)} new, {n_policies(n_all)} in all"
        if part.fitted:
            words = f"{len(part.new)} new, space fitted on {n_policies(n_all)}"
        if part.outside:
            words += f", {len(part.outside)} where the space knows nothing"
        say(f"{words}, {part.seconds:.2g} s")
