"""Ways to spoil files, and a process of bounded memory and time that tries to read them.

Run as a script it reads a pickled request and prints one line for each spoilt sample.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import pickle
import pickletools
import signal
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MEMORY, SECONDS = 1_000_000_000, 20  # of the processor; five times that by the clock
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
def _zeros() -> bytes:
    """A megabyte of zeros as a block of deflate that may be repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)


def forged(members, name, content, megabytes, declared, method=zipfile.ZIP_DEFLATED):
    """An archive whose last member unpacks to ``content`` and zeros, and declares any size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    raw = start + _zeros() * megabytes + b"\x03\x00"
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


def spoilt(files: dict[str, bytes], seed: int, rounds: int, others: list[bytes]):
    """Copies of a sample, in each of which one file is spoilt; the first one most often."""
    rng = np.random.default_rng(seed)
    names = list(files)
    for _ in range(rounds):
        chosen = names[0] if rng.random() < 0.6 else str(rng.choice(names))
        yield {**files, chosen: spoil(files[chosen], rng, others)}


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
    """

    attempt: str
    files: dict[str, bytes]
    expected: str = "read"
    repair: Callable[[dict[str, bytes]], dict[str, bytes]] = lambda files: files


def counts(samples: Sequence[Sample], seed: int, rounds: int) -> list[Counter]:
    """Spoil samples again and again, and count how that ended.

    "read" and "refused" are as they should be; anything else is a defect, said with the folder
    where the case is kept.
    """
    others = [content for sample in samples for content in sample.files.values()]
    jobs = []
    for sample in samples:
        cases = spoilt(sample.files, seed, rounds, others)
        jobs.append((sample.attempt, [sample.files, *map(sample.repair, cases)]))
    done = subprocess.run(
        [sys.executable, __file__],
        input=pickle.dumps((sys.path, jobs)),
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, "the process that forks must not fail"
    told = done.stdout.decode().splitlines()
    assert len(told) == len(samples) * (rounds + 1)
    parts = [told[i : i + rounds + 1] for i in range(0, len(told), rounds + 1)]
    assert [part[0] for part in parts] == [sample.expected for sample in samples]
    return [Counter(part[1:]) for part in parts]


def check(counted: Counter) -> None:
    """Hold that all were read or refused, and some of them refused."""
    odd = [ending for ending in counted if ending not in ("read", "refused")]
    assert not odd, "\n".join(odd)
    assert counted["refused"] > counted.total() // 10


# ---- in the process ----


def _main() -> None:
    path, jobs = pickle.loads(sys.stdin.buffer.read())
    sys.path[:] = path
    answers = os.dup(1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    for attempt, cases in jobs:
        module, _, function = attempt.partition(":")
        call = getattr(__import__(module), function)
        _ending(call, cases[0])  # before memory is bounded, so that all is imported
        _try_all(call, cases, answers)


def _try_all(call, cases, answers):
    at = 0
    while at < len(cases):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _serve(call, cases[at:], writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                os.write(answers, line.encode())
                at += 1
        code = os.waitpid(pid, 0)[1]
        if at < len(cases):  # it died of this one
            ended = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
            kind = "hangs" if ended in (signal.SIGALRM, signal.SIGPROF) else code
            os.write(answers, f"the process ended: {kind}; {_kept(cases[at])}\n".encode())
            at += 1


def _kept(files):
    """Keep a case for a look at it."""
    folder = Path(tempfile.mkdtemp(prefix="spoilt-"))
    _write(folder, files)
    return folder


def _write(folder, files):
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _serve(call, cases, writing):
    import resource

    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    for files in cases:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(5 * SECONDS)
        ending = _ending(call, files)
        os.write(writing, f"{ending}\n".encode())
    os._exit(0)


def _ending(call, files) -> str:
    from pivec.errors import PivecError

    with tempfile.TemporaryDirectory() as folder:
        _write(folder, files)
        before = sorted(Path(folder).rglob("*"))
        try:
            call(Path(folder))
            ending = "read"
        except PivecError as error:
            text = str(error)
            names = [Path(name) for name in files]
            said = [folder, *getattr(call, "labels", ()), *(name.name for name in names)]
            said += [name.stem for name in names if len(name.stem) > 3]  # which is its label
            named = any(name in text for name in said)
            ending = "refused" if named and "\n" not in text else f"badly told: {text[:300]!r}"
        except Exception as error:
            kind, where = type(error).__name__, error.__traceback__
            while where.tb_next is not None:
                where = where.tb_next
            line = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}"
            ending = f"{kind} at {line}: {str(error)[:200]!r}"
        made = Path(folder, "made")  # where an attempt may write
        left = [path for path in Path(folder).rglob("*") if not path.is_relative_to(made)]
        if sorted(left) != before:
            ending = f"wrote {sorted(set(left) - set(before))}"
    if ending not in ("read", "refused"):
        ending = f"{ending}; {_kept(files)}".replace("\n", " ")
    return ending


if __name__ == "__main__":
    _main()
