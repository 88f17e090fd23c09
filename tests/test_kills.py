"""Commands that are stopped at a random moment, and run again, write the same bytes.

As a script, this file imports all modules once and forks a process per command: most of the time
would be spent on imports. Some commands are started afresh, to stop them during imports too.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import pivec
from pivec.__main__ import main

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")

SOURCE = Path(pivec.__file__).parents[1]
POLICIES = SOURCE / "pivec" / "demo_policies" / "CartPole-v1"
TINY = "--episodes 2 --components 2 -q"
WATCH = f"--at-least 2 --until-idle 0 --out out {TINY}"
JOBS = {  # the command, and one that was run before it, with fewer policies or episodes
    "collect": ("collect CartPole-v1 runs random:4 --episodes 3 --out out -q", ""),
    "collect more": (
        "collect CartPole-v1 runs random:4 --episodes 3 --out out -q",
        "collect CartPole-v1 runs random:4 --episodes 2 --out out -q",
    ),
    "compare": (f"compare CartPole-v1 runs random:2 --out out {TINY}", ""),
    "compare until": (
        f"compare CartPole-v1 runs random:2 --until 0.2 --at-most 8 --out out {TINY}",
        f"compare CartPole-v1 runs --out out {TINY}",
    ),
    "watch": (f"watch CartPole-v1 runs {WATCH}", ""),
    "watch more": (
        f"watch CartPole-v1 runs random:2 {WATCH}",
        f"watch CartPole-v1 runs {WATCH}",
    ),
    "watch refit": (
        f"watch CartPole-v1 runs random:3 --refit {WATCH}",
        f"watch CartPole-v1 runs {WATCH}",
    ),
    "same": (f"same CartPole-v1 runs/a.safetensors random --junit out/same.xml --json {TINY}", ""),
    "import": ("import few.csv --out out", ""),
    "import many": ("import many.csv --out out", "import few.csv --out out"),  # packed together
}
CASES = [(name, jobs) for name in JOBS for jobs in (1, 2) if jobs == 1 or "import" not in name]
SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]
IMPORTS = 1.5  # seconds
LONGEST = 15.0  # seconds until workers have noticed, on a busy machine: mostly less than one
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.chmod", "os.truncate"}


class Kill(NamedTuple):
    """How a command is stopped."""

    sign: int
    seconds: float = float("inf")  # after the start, or
    change: int = 0  # before this change of a file
    fresh: bool = False  # whether a new interpreter runs it
    everyone: bool = False  # its workers too, which Ctrl-C does not reach
    again: float | None = None  # seconds until the second signal


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float
    late: float  # seconds since it was stopped


def run(folder, command, kill=None):
    """Run a command in a folder and stop it; no process of it is left soon after."""
    kill = kill or Kill(0)
    token, files = secrets.token_hex(8), [folder / name for name in ("stdout", "stderr")]
    for file in files:
        file.write_bytes(b"")
    begun, stopped = time.monotonic(), float("inf")
    process = os.fork()
    if not process:
        enter(folder, token, command.split(), kill)
    ended = wait(process, kill.seconds)
    if ended is None:
        stopped = time.monotonic()
        for pid in {process, *(processes(token) if kill.everyone else [])}:
            end(pid, kill.sign)
        if kill.again is not None:
            time.sleep(kill.again)
            end(process, kill.sign)
        ended = wait(process, 120)
    now = time.monotonic()
    while (left := processes(token)) and time.monotonic() < now + LONGEST:
        time.sleep(0.02)
    for pid in left:
        end(pid, signal.SIGKILL)
    assert not left, "processes are left"
    texts = [file.read_text() for file in files]
    return Ended(os.waitstatus_to_exitcode(ended), *texts, now - begun, now - stopped)


def enter(folder, token, arguments, kill):
    """Become the command."""
    os.setsid()
    os.chdir(folder)
    for number, name in (1, "stdout"), (2, "stderr"):
        os.dup2(os.open(name, os.O_WRONLY), number)
    os.environ["KILLED"] = token
    if kill.fresh:
        os.execv(sys.executable, [sys.executable, "-m", "pivec", *arguments])
    count, place, code = 0, os.path.abspath("out"), 1

    def stop(event, details):
        nonlocal count
        if event in CHANGES or (event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR)):
            path = details[0]
            if not isinstance(path, int) and os.path.abspath(os.fsdecode(path)).startswith(place):
                count += 1
                if count == kill.change:
                    os.kill(os.getpid(), kill.sign)

    sys.addaudithook(stop)
    sys.argv = ["pivec", *arguments]
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except SystemExit as error:
        code = error.code
    finally:
        if not kill.sign:
            Path("changes").write_text(str(count))
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(process, seconds):
    """Return the status of a process that ends in this time; None if it does not."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.001)
    return None


def end(pid, sign):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)


def processes(token):
    """Find living processes by a variable of their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if token.encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def content(folder):
    """Read all files, without what may differ between runs: times and memory."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_dir():
            continue
        data = path.read_bytes()
        if path.name == "run.json":
            record = json.loads(data)
            for key in ("run", "timings", "peak_mb"):
                record.pop(key, None)
            data = json.dumps(record).encode()
        if path.suffix in (".html", ".xml"):
            data = re.sub(rb"<tr>\s*<td>\w+</td>\s*<td>[\d.]+ s</td>\s*</tr>\s*", b"", data)
            data = re.sub(rb'time="[\d.]+"', b"", data)
        files[str(path.relative_to(folder))] = data
    return files


class Undisturbed:
    """A command that is run to its end, as a reference."""

    def __init__(self, folder, name, jobs):
        self.folder, base = folder, folder / "base"
        self.command, earlier = JOBS[name]
        if "import" not in name:
            self.command += f" --jobs {jobs}"
        for part in ("out", "runs"):
            (base / part).mkdir(parents=True)
        for label, group in zip("abc", ("a2c-0", "a2c-1", "ppo-0"), strict=True):
            policy = base / "runs" / f"{label}.safetensors"
            shutil.copy2(POLICIES / group / "step_0.safetensors", policy)
        for table, n in ("few", 4), ("many", 1010):
            rows = [f"p{i},{j},{i},{(i * 7919) % 101}" for i in range(n) for j in range(2)]
            (base / f"{table}.csv").write_text("\n".join(["policy,episode,x,y", *rows]))
        if earlier:
            assert run(base, earlier).code == 0
        self.before = content(base / "out")
        shutil.copytree(base, folder / "reference")
        self.ended = run(folder / "reference", self.command)
        assert self.ended.code in ((0, 1, 3) if name == "same" else (0,)), self.ended.err
        self.after = content(folder / "reference" / "out")
        self.n_changes = int((folder / "reference" / "changes").read_text())

    def random_kill(self, rng, sign):
        """Draw a moment: any, while modules are imported, at the end, or at a change of a file."""
        kind = rng.choice(["fresh", "change", "change", "time", "time"])
        if kind == "change":
            return Kill(sign, change=rng.randint(1, self.n_changes))
        last = 1.1 * (self.ended.seconds + IMPORTS * (kind == "fresh"))
        low, high = rng.choice([(0, last), (0, 0.3), (0.8 * last, last)])
        everyone = sign != signal.SIGINT and rng.random() < 0.5
        again = rng.uniform(0, 0.5) if sign == signal.SIGINT and rng.random() < 0.3 else None
        return Kill(sign, rng.uniform(low, high), 0, kind == "fresh", everyone, again)

    def check(self, kill):
        """Stop the command, check what is left, and run it again."""
        folder = self.folder / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "base", folder)
        ended = run(folder, self.command, kill)
        codes = {128 + kill.sign, -kill.sign}
        if kill.sign == signal.SIGTERM:
            codes.add(-signal.SIGINT)  # Python's, if a KeyboardInterrupt has left an exec()
        if not kill.change and ended.late < 0.5:
            codes.add(self.ended.code)  # it had ended, or was about to
        # Python itself starts without a handler for Ctrl-C.
        handled = not kill.fresh or re.search(r'__main__.py", line \d+, in main', ended.err)
        if handled or "Traceback" not in ended.err:
            assert ended.code in codes, (ended.code, ended.err)
            assert "Traceback" not in ended.err, ended.err
        self.check_partial(folder / "out")
        for path in folder.rglob(".*.tmp"):
            os.utime(path, (0, 0))  # time passes
        again = run(folder, self.command)
        assert (again.code, again.err) == (self.ended.code, self.ended.err), again.err
        if not self.command.startswith("watch"):  # which prints what is new
            assert again.out == self.ended.out
        found = content(folder / "out")
        names = found.keys() | self.after.keys()
        different = [name for name in names if found.get(name) != self.after.get(name)]
        assert not different, different

    def check_partial(self, folder):
        """Check that every file is complete: as it was, as it will be, or consistent in itself."""
        for name, data in content(folder).items():
            path = folder / name
            if path.name.startswith(".") and path.suffix == ".tmp":
                continue
            if path.suffix == ".arrow":
                assert path.stem.endswith(hashlib.sha256(data).hexdigest()[:16])
            elif path.suffix not in (".json", ".npz"):
                assert data in (self.before.get(name), self.after.get(name)), name
            if path.name == "store.json":
                assert pivec.Store(path.parent).verify() == []
            if path.name == "space.json":
                pivec.Space.load(path.parent)


def kill_many(folder, name, jobs, n, seed):
    """Stop a command ``n`` times; return how often by each signal, and what went wrong."""
    reference = Undisturbed(folder, name, jobs)
    rng = random.Random(f"{name} {jobs} {seed}")
    counts, problems = Counter(), []
    for number in range(n):
        kill = reference.random_kill(rng, SIGNALS[number % 3])
        counts[signal.Signals(kill.sign).name] += 1
        try:
            reference.check(kill)
        except Exception as error:
            problems.append(f"{reference.command}, {kill}: {error!r:.2000}")
    return {"kills": counts, "changes": reference.n_changes, "problems": problems}


def kills(folder, name, jobs, n, seed=0):
    """Call `kill_many` in a process without threads, which has imported what the command needs."""
    arguments = [str(folder), name, str(jobs), str(n), str(seed)]
    path = os.pathsep.join([str(SOURCE), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_few_kills(tmp_path):
    assert kills(tmp_path, "collect more", 1, 3)["problems"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "jobs"), CASES)
def test_killed_commands_can_be_run_again(tmp_path, name, jobs):
    found = kills(tmp_path, name, jobs, 12)  # 216 in all
    assert found["problems"] == []


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as a command finds it
    place, chosen, *numbers = sys.argv[1:]
    modules = ["pivec.cli", "pivec.workflows", "pyarrow.csv"]
    if not chosen.startswith(("collect", "import")):
        modules += ["matplotlib.backends.backend_agg", "openTSNE", "pivec.report", "scipy.stats"]
    for module in modules:
        importlib.import_module(module)
    print(json.dumps(kill_many(Path(place), chosen, *map(int, numbers))))
