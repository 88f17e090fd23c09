"""A store in the formats of others: Parquet, a folder of .npz, a Minari dataset."""

from __future__ import annotations

import re
from pathlib import Path

from pivec.atomic import check_folder
from pivec.errors import UsageError
from pivec.rollouts.environment import Environment
from pivec.states.store import Store


def export(store: str | Path, target: str, level: str = "states") -> str:
    """Write a store elsewhere, and say what was written.

    Parameters
    ----------
    store : path
        A store, or the folder of a comparison.
    target : str
        ``file.parquet``, ``npz:DIR`` or ``minari:NAME``.
    level : str
        For Parquet: a row for each of the states, the episodes or the policies.
    """
    found = Store.find(store)
    if target.endswith(".parquet"):
        from pivec.states.tables import write_parquet

        if not Path(target).parent.is_dir() or Path(target).is_dir():
            raise UsageError(f"cannot export to {target}: expected a file in a folder that exists")
        check_folder(Path(target).parent)
        write_parquet(found.load(), target, level)
        return f"Parquet: {target}"
    data = found.load()
    from pivec.states.minari_data import write_minari
    from pivec.states.raw import raw_episodes

    kind, _, where = target.partition(":")
    if kind == "npz" and where:
        from pivec.states.npz import write_npz

        taken: set[Path] = set()
        for policy in range(data.n_policies):
            one = data[policy]
            path = Path(where).expanduser() / _file_name(one.labels[0])
            if path in taken:
                path = path.with_stem(f"{path.stem}-{policy}")
            taken.add(path)
            write_npz(path, list(raw_episodes(one)), data.feature_names)
        return f"{data.n_policies} files: {where}"
    if kind == "minari" and where:
        settings = found.settings
        name = str(settings.get("environment", ""))
        environment = Environment.of(
            name,
            settings.get("arguments"),
            settings.get("wrappers") or (),
            settings.get("imports") or (),
        )
        write_minari(data, where, environment)
        return f"Minari dataset: {where}"
    raise UsageError(f"cannot export to {target!r}: expected FILE.parquet, npz:DIR or minari:NAME")


def _file_name(label: str) -> str:
    """A path below the target for any label; folders stay, but lead nowhere else."""
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "_", part).strip(".") for part in label.split("/")]
    return "/".join(part for part in parts if part) + ".npz"
