"""Writes logs with pandas and polars: `pip install pandas polars pyarrow`, then run this file."""

from __future__ import annotations

import pandas as pd
import polars as pl
from files import folder, log

FEATURES = [f"obs_{i}" for i in range(4)]


def main():
    frame = pd.DataFrame(log())
    totals = frame.groupby(["algo", "run", "episode"]).reward.sum()
    returns = {
        f"{algo}/{run}": totals[algo, run].tolist() for algo in ("ppo", "sac") for run in range(2)
    }

    def place(name, source):
        return folder(name, source, returns, FEATURES) / source

    frame.to_csv(place("pandas-csv", "log.csv"))
    frame.to_parquet(place("pandas-parquet", "log.parquet"))
    frame.to_feather(place("pandas-feather", "log.feather"))
    frame.to_json(place("pandas-jsonl", "log.jsonl"), orient="records", lines=True)
    table = pl.from_pandas(frame)
    table.write_csv(place("polars-csv", "log.csv"))
    table.write_parquet(place("polars-parquet", "log.parquet"))
    table.write_ndjson(place("polars-ndjson", "log.ndjson"))


if __name__ == "__main__":
    main()
