"""Read hostile files of every reader and print a table: ``python -m tests.hostile --count 500``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from corpus import READERS, make_canary, opened_elsewhere, traced

from spoiling import endings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", help="those whose names start so; all by default")
    parser.add_argument("--count", type=int, default=500, help="files per reader")
    parser.add_argument("--slower", type=float, default=20, help="list those that take longer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="without large crafted files")
    parser.add_argument("--trace", action="store_true", help="list opened files with strace")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        home = Path(folder)
        print("reader,files,read,refused,wrong,most seconds,most MB,duration", flush=True)
        make_canary(home / "canary")
        for name, make in READERS.items():
            if not name.startswith(tuple(chosen.readers) or ""):
                continue
            sample, begin = make(home, home / "canary"), time.monotonic()
            log = home / "opened"
            tracer = traced(log) if chosen.trace else ()
            rounds = max(chosen.count - len(sample.crafted), chosen.count // 2)
            canary = [home / "canary"]
            (found,) = endings([sample], chosen.seed, rounds, canary, tracer, chosen.quick)
            odd = [ending for ending in found.values() if not ending.is_right]
            texts = [ending.text for ending in found.values()]
            seconds, megabytes = (max(e[i] for e in found.values()) for i in (1, 2))
            print(
                f"{name},{len(found)},{texts.count('read')},{texts.count('refused')},{len(odd)},"
                f"{seconds:.1f},{megabytes:.0f},{time.monotonic() - begin:.0f}",
                flush=True,
            )
            for key, e in found.items():
                if not e.is_right or e.seconds > chosen.slower:
                    print(f"    {key}: {e.text} ({e.seconds} s, {e.megabytes} MB)", flush=True)
            elsewhere = opened_elsewhere(log) if chosen.trace else set()
            for path in sorted(elsewhere):
                print(f"    opened {path}", flush=True)
            wrong += len(odd) + len(elsewhere)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
