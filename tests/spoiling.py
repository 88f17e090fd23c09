"""Ways to spoil files, and a process of bounded memory and time that tries to read them.

Run as a script it reads a pickled request and prints one line for each spoilt sample.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import itertools
import json
import os
import pickle
import pickletools
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

MEMORY, SECONDS = 1_000_000_000, 20  # of the processor
BLOCKED = 30.0  # seconds by the clock without any of the processor
ODD = [
    *(None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x", [], {}, [[]], ["a"], 2**31, 2**64),
    *(10**400, [10**400], -(10**400), {"a": {"b": []}}, "\x1b[2J", [None], [True], [[1.0], [2.0]]),
]

# Instructions of pickles that push a value, and values that nobody expects there.
PUSHING = b"KJMGX\x8cNC\x88\x89\x8a"
_PUT, _GET = b"r\xff\xff\x00\x00", b"j\xff\xff\x00\x00"
PUSHED = [
    *(
        b"N",
        b"\x88",
        b")",
        b"]",
        b"}",
        b"K\x00",
        b"C\x00",
        b"J\xff\xff\xff\x7f",
        b"J\x00\x00\x00\x80",
    ),
    *(b"G\x7f\xf8" + bytes(6), b"G\x7f\xf0" + bytes(6), b"\x8a\x09" + b"\x7f" * 9),
    *(b"X" + bytes(4), b"X\x03\x00\x00\x00\n\x1b\x07", b"\x8b\x00\x10\x00\x00" + b"\x7f" * 4096),
    *(b")" + b"\x85" * 5000, b")" + (_PUT + _GET + b"\x86") * 90, b"]" + _PUT + _GET + b"a"),
]


def archive(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


@functools.cache
def zeros() -> bytes:
    """A megabyte of zeros as a block of deflate that may be repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)


def forged(members, name, content, megabytes, declared, method=zipfile.ZIP_DEFLATED):
    """An archive whose last member unpacks to ``content`` and zeros, and declares any size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    raw = start + zeros() * megabytes + b"\x03\x00"
    rest = {key: value for key, value in members.items() if key != name}
    data = bytearray(archive({**rest, name: raw}))
    central, local = data.rindex(b"PK\x01\x02"), data.rindex(b"PK\x03\x04" + data[4:8])
    struct.pack_into("<H", data, central + 10, method)
    struct.pack_into("<H", data, local + 8, method)
    struct.pack_into("<L", data, central + 24, declared)
    struct.pack_into("<L", data, local + 22, declared)
    return bytes(data)


def spoil(data: bytes, rng: np.random.Generator, others: list[bytes]) -> bytes:
    """The same content with some damage."""
    content = bytearray(data or b"x")
    match int(rng.integers(11)):
        case 0:
            return bytes(content[: rng.integers(len(content))])
        case 1 | 2:
            for _ in range(int(rng.integers(1, 4))):
                content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        case 3:
            at = int(rng.integers(len(content)))
            content[at : at + int(rng.integers(1, 9))] = rng.bytes(int(rng.integers(9)))
        case 4:
            at, size = int(rng.integers(len(content))), int(rng.integers(1, 9))
            extreme = rng.choice([b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7])
            content[at : at + size] = bytes(extreme)[:size]
        case 5:
            other = others[rng.integers(len(others))]
            cut = int(rng.integers(len(content)))
            return bytes(content[:cut]) + other[int(rng.integers(len(other) + 1)) :]
        case 6:
            first, second = sorted(rng.integers(len(content), size=2).tolist())
            content[second:second] = content[first:second][:2000]
        case 7:
            return _spoil_length(content, rng)
        case _:
            if data.startswith(b"PK"):
                return _spoil_inside(data, rng, others)
            if data[:1] in b"{[":
                return _spoil_json(data, rng)
            if data[:1] == b"\x80" and data[-1:] == b".":
                return _spoil_pickle(data, rng)
            content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content)


def _spoil_length(content, rng):
    """Change a small number that stands where lengths stand: in 2, 4 or 8 bytes."""
    form = str(rng.choice(["<H", "<I", "<Q", ">I"]))
    size = struct.calcsize(form)
    for _ in range(200):
        at = int(rng.integers(max(1, len(content) - size)))
        if at + size > len(content):
            break
        (value,) = struct.unpack_from(form, content, at)
        if 0 < value < 4 * len(content):
            most = (1 << 8 * size) - 1
            choice = [value + 1, value - 1, 2 * value, 0, most, most >> 1, len(content), 1 << 30]
            struct.pack_into(form, content, at, min(most, choice[rng.integers(len(choice))]))
            break
    return bytes(content)


def _spoil_inside(data, rng, others):
    """Damage behind right checksums: a member is spoilt and the archive packed again."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {name: file.read(name) for name in file.namelist()}
    except Exception:
        return data[::-1]
    pickles = [name for name in members if name.endswith((".pkl", ".pth", "data", ".json"))]
    chosen = str(rng.choice(pickles if pickles and rng.random() < 0.7 else list(members)))
    if rng.random() < 0.15:
        declared = int(rng.choice([0, 100, 3_000 << 20, (1 << 32) - 1]))
        return forged(
            members, chosen, members[chosen], int(rng.choice([1, 1, 70, 70, 3000])), declared
        )
    members[chosen] = spoil(members[chosen], rng, others)
    if rng.random() < 0.1:
        members[str(rng.choice(["../../escaped", "/escaped", "a/../../escaped"]))] = b"x"
    return archive(members, int(rng.choice([0, 0, 0, 8, 12, 14])))


def _spoil_json(data, rng):
    """JSON with a value that nobody expects, or too deep."""
    try:
        value = json.loads(data)
    except ValueError:
        return data[::-1]
    if rng.random() < 0.05:
        return b'{"a":' * 100_000
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        if isinstance(at, dict) and rng.random() < 0.2:
            del at[key]
        else:
            at[key] = ODD[rng.integers(len(ODD))]
        break
    return json.dumps(value).encode()


def _spoil_pickle(data, rng):
    """A pickle with instructions repeated, removed, exchanged or replaced by odd values."""
    try:
        starts = [start for opcode, _, start in pickletools.genops(data)]
    except Exception:
        return data[::-1]
    parts = [data[a:b] for a, b in itertools.pairwise([*starts, len(data)])]
    for _ in range(int(rng.integers(1, 4))):
        first, last = sorted(rng.integers(len(parts), size=2).tolist())
        match int(rng.integers(6)):
            case 0:
                parts[first:first] = parts[first:last][:20]
            case 1:
                parts[last:last] = parts[first : first + 1]
            case 2:
                parts[first : first + 1] = [parts[last]]
            case 3 if len(parts) > 1:
                del parts[first]
            case _:
                values = [i for i, part in enumerate(parts) if part[:1] in PUSHING] or [first]
                parts[values[rng.integers(len(values))]] = PUSHED[rng.integers(len(PUSHED))]
    return b"".join(parts)


@dataclass(frozen=True)
class Fifo:
    """A named pipe, which blocks whoever opens it."""


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


Files = dict[str, "bytes | Fifo | Link"]


def _spoilt(files: Files, rng: np.random.Generator, others: list[bytes]) -> Files:
    """A copy in which one file is spoilt, most often the first one."""
    names = [name for name, content in files.items() if isinstance(content, bytes)]
    chosen = names[0] if rng.random() < 0.6 else str(rng.choice(names))
    return {**files, chosen: spoil(files[chosen], rng, others)}


@dataclass(frozen=True)
class Sample:
    """Files that are sound, and what is done with them.

    Attributes
    ----------
    attempt : str
        "module:function" in the tests, called with the folder of a case; it may raise PivecError.
    files : dict
        Name -> bytes; the first is spoilt most often.
    expected : str
        How the sample itself ends, "read" or "refused".
    repair : callable
        Mends what would hide the damage.
    crafted : dict
        Name -> files made to do harm, which must be read or refused as well.
    slow : sequence of str
        Names of crafted files that are small, but take long.
    """

    attempt: str
    files: Files
    expected: str = "read"
    repair: Callable[[Files], Files] = lambda files: files
    crafted: dict[str, Files] = field(default_factory=dict)
    slow: Sequence[str] = ()

    def chosen(self, quick: bool) -> dict[str, Files]:
        """The crafted files, without those that are large and slow to read if ``quick``."""
        return {
            name: files
            for name, files in self.crafted.items()
            if not quick or (_size(files) < 200_000 and name not in self.slow)
        }

    def cases(self, seed: int, rounds: int, others: list[bytes], quick: bool) -> list[Files]:
        """The sample, its crafted files and spoilt copies of it and of small crafted ones."""
        crafted = self.chosen(quick)
        small = [files for files in crafted.values() if 0 < _size(files) < 50_000]
        bases = [self.files] * max(1, len(small)) + small
        rng = np.random.default_rng(seed)
        spoilt = [
            self.repair(_spoilt(bases[rng.integers(len(bases))], rng, others))
            for _ in range(rounds)
        ]
        return [self.files, *crafted.values(), *spoilt]


def _size(files: Files) -> int:
    return sum(len(content) for content in files.values() if isinstance(content, bytes))


class Ending(NamedTuple):
    """How an attempt ended: "read", "refused" or what is wrong, and what it took."""

    text: str
    seconds: float  # of the processor
    megabytes: float

    @property
    def is_right(self) -> bool:
        """Whether the file was read or refused."""
        return self.text in ("read", "refused")


def endings(
    samples: Sequence[Sample],
    seed: int,
    rounds: int,
    watched: Sequence[Path] = (),
    tracer: Sequence[str] = (),
    quick: bool = False,
) -> list[dict[str, Ending]]:
    """Read the crafted files of each sample and ``rounds`` spoilt ones; name -> how that ended.

    No file of the folders ``watched`` may be opened. ``tracer`` is a command that runs the process.
    ``quick`` leaves out crafted files that are large.
    """
    others = [
        content
        for sample in samples
        for content in sample.files.values()
        if isinstance(content, bytes)
    ]
    jobs = [(sample.attempt, sample.cases(seed, rounds, others, quick)) for sample in samples]
    done = subprocess.run(
        [*tracer, sys.executable, __file__],
        input=pickle.dumps((sys.path, jobs, [*map(str, watched)])),
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, "the process that forks must not fail"
    lines = [Ending(*json.loads(line)) for line in done.stdout.decode().splitlines()]
    assert len(lines) == sum(len(cases) for _, cases in jobs)
    starts = np.cumsum([0, *(len(cases) for _, cases in jobs)]).tolist()
    parts = [lines[start:end] for start, end in itertools.pairwise(starts)]
    assert [part[0].text for part in parts] == [sample.expected for sample in samples]
    spoilt = [f"spoilt {number}" for number in range(rounds)]
    names = [[*sample.chosen(quick), *spoilt] for sample in samples]
    return [dict(zip(names[i], part[1:], strict=True)) for i, part in enumerate(parts)]


# ---- in the process ----

_USUAL = ("/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sys", "/usr")
_FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "socket.connect", "socket.getaddrinfo"}


def _main() -> None:
    path, jobs, watched = pickle.loads(sys.stdin.buffer.read())
    sys.path[:] = path
    answers = os.dup(1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    known = set()
    for attempt, cases in jobs:
        module, _, function = attempt.partition(":")
        call = getattr(__import__(module), function)
        if attempt not in known:  # before anything is measured, so that most is imported
            _ending(call, cases[0])
        known.add(attempt)
        _try_all(call, cases, answers, watched)


def _try_all(call, cases, answers, watched):
    at = 0
    while at < len(cases):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _serve(call, cases[at:], writing, watched)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as lines:
            guard = _Guard(pid)
            rest = b""
            while True:
                if not select.select([lines], [], [], 0.05)[0]:
                    guard.look()
                    continue
                if not (part := os.read(lines.fileno(), 1 << 16)):
                    break
                *whole, rest = (rest + part).split(b"\n")
                for line in whole:
                    os.write(answers, line + b"\n")
                    at += 1
                guard = _Guard(pid)
        code = os.waitpid(pid, 0)[1]
        if code and at < len(cases):  # it died of this one
            why = guard.reason or f"the process ended: {code}"
            ending = Ending(f"{why}; {_kept(cases[at])}", *guard.used)
            os.write(answers, json.dumps(ending).encode() + b"\n")
            at += 1


class _Guard:
    """Ends a process with all its descendants if it takes too much, or waits for ever."""

    def __init__(self, pid):
        self._pid, self.reason, self.used = pid, "", (0.0, 0.0)
        self._first, self._base = self._usage()
        self._last, self._changed = self._first, time.monotonic()

    def _usage(self):
        """Processor time and resident memory of the process and its descendants."""
        seconds = pages = 0
        for pid in _family(self._pid):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                seconds += sum(map(int, fields[11:15]))
                pages += int(fields[21])
        return seconds / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")

    def look(self):
        seconds, memory = self._usage()
        now = time.monotonic()
        if seconds != self._last:
            self._last, self._changed = seconds, now
        self.used = (seconds - self._first, (memory - self._base) / 1e6)
        if self.used[0] > 1.5 * SECONDS:
            self._end(f"takes more than {self.used[0]:.0f} s")
        elif memory - self._base > 3 * MEMORY:
            self._end(f"takes more than {self.used[1]:.0f} MB")
        elif now - self._changed > BLOCKED:
            self._end("blocks")

    def _end(self, reason):
        self.reason = self.reason or reason
        for pid in reversed(_family(self._pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _family(pid):
    """A process and all its descendants."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def _kept(files):
    """Keep a case for a look at it."""
    folder = Path(tempfile.mkdtemp(prefix="spoilt-"))
    _write(folder, files)
    return folder


def _write(folder, files):
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, Link):
            path.symlink_to(content.target)
        else:
            os.mkfifo(path)


def _serve(call, cases, writing, watched):
    events: list[tuple[str, str]] = []

    def note(event, args):
        if event == "open" and isinstance(args[0], str | bytes):
            events.append((event, os.fsdecode(args[0])))
        elif event in _FORBIDDEN:
            events.append((event, str(args)[:100]))

    sys.addaudithook(note)
    watch = _Watch(watched)
    for files in cases:
        meter = _Meter()
        events.clear()
        ending = _ending(call, files, events)
        seconds, megabytes = meter.read()
        if opened := watch.read():
            ending = f"opened {opened}"
        if seconds > SECONDS:
            ending = f"took {seconds:.0f} s"
        if megabytes > MEMORY / 1e6:
            ending = f"took {megabytes:.0f} MB"
        is_right = ending in ("read", "refused")
        if not is_right:
            ending = f"{ending}; {_kept(files)}".replace("\n", " ")
        answer = json.dumps(Ending(ending, round(seconds, 2), round(megabytes)))
        os.write(writing, answer.encode() + b"\n")
        if not is_right:  # the next one starts afresh
            break
    for pid in _family(os.getpid())[:0:-1]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


class _Meter:
    """Processor time and memory of this process and its children since it was made."""

    def __init__(self):
        self._base = {}
        for pid in _family(os.getpid()):
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak starts again
            self._base[pid] = _status(pid, "VmRSS")
        self._seconds = self._time()

    def _time(self):
        return sum(os.times()[:4]) + sum(map(_running, _family(os.getpid())[1:]))

    def read(self):
        """Seconds, and megabytes more than before."""
        own, *others = [
            _status(pid, "VmHWM") - self._base.get(pid, 0) for pid in _family(os.getpid())
        ]
        ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        return self._time() - self._seconds, (own + max([ended, *others])) / 1e6


def _running(pid):
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _status(pid, key):
    """Bytes of memory of a process."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


class _Watch:
    """Notes which files of some folders any process opens."""

    def __init__(self, folders):
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK)
        for folder in folders:
            number = libc.inotify_add_watch(self._handle, os.fsencode(folder), 0x20)  # IN_OPEN
            assert number > 0, os.strerror(ctypes.get_errno())

    def read(self):
        """Names of those that were opened since the last call."""
        try:
            data, names = os.read(self._handle, 1 << 16), []
        except BlockingIOError:
            return []
        while data:
            length = struct.unpack_from("iIII", data)[3]
            names.append(data[16 : 16 + length].rstrip(b"\0").decode())
            data = data[16 + length :]
        return names


def _ending(call, files, events=()) -> str:
    from pivec import errors

    with tempfile.TemporaryDirectory() as folder:
        _write(folder, files)
        before = sorted(Path(folder).rglob("*"))
        try:
            call(Path(folder))
            ending = "read"
        except errors.PivecError as error:
            text = str(error)
            names = [Path(name) for name in files]
            said = [folder, *getattr(call, "labels", ()), *(name.name for name in names)]
            said += [name.stem for name in names if len(name.stem) > 3]  # which is its label
            named = any(name in text for name in said)
            ending = "refused" if named and "\n" not in text else f"badly told: {text[:300]!r}"
        except BaseException as error:
            kind, where = type(error).__name__, error.__traceback__
            while where.tb_next is not None:
                where = where.tb_next
            line = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}"
            ending = f"{kind} at {line}: {str(error)[:200]!r}"
        own = [str(Path(file).parents[1]) for file in (__file__, errors.__file__)]
        own += [os.path.realpath(sys.prefix), sys.base_prefix]
        numba = os.environ.get("NUMBA_CACHE_DIR", Path.home() / ".cache" / "numba")
        own.append(os.path.realpath(numba))  # compiled code
        home = (*own, *_USUAL, os.path.realpath(folder))
        for event, what in events:
            real = os.path.realpath(what)
            if event != "open" or not any(os.path.commonpath([real, top]) == top for top in home):
                ending = f"{event} {what}"
        made = Path(folder, "made")  # where an attempt may write
        left = [path for path in Path(folder).rglob("*") if not path.is_relative_to(made)]
        if sorted(left) != before:
            ending = f"wrote {sorted(set(left) - set(before))}"
    return ending


if __name__ == "__main__":
    _main()
