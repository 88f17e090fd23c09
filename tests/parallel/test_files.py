"""Files of the driver in workers that do not see them: the right bytes, and no others."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from pivec.errors import PivecError
from pivec.files import open_regular, read_regular
from pivec.parallel import Mirror, files, offer, offered, present, source
from pivec.parallel import ray_files as modules
from pivec.parallel.files import SentBytes
from pivec.parallel.offered import answer
from pivec.parallel.source import Source


@pytest.fixture(autouse=True)
def nothing_offered(monkeypatch):
    monkeypatch.setattr(offered, "_offered", set())
    yield
    files.use(None)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Give a function that lets this process work like one that does not see ``tmp_path/runs``."""
    asked = []

    def leave():
        seen, hidden = str(tmp_path / "runs"), str(tmp_path / "hidden")
        os.rename(seen, hidden)
        monkeypatch.setattr(
            offered, "_offered", {path.replace(seen, hidden) for path in offered._offered}
        )

        def ask(path, start, known):
            asked.append(path)
            return answer(path.replace(seen, hidden), start, known)

        files.use(Source(ask, str(tmp_path), "test"))
        return asked

    (tmp_path / "runs").mkdir()
    return leave


def test_without_a_driver_elsewhere_nothing_changes(tmp_path):
    (tmp_path / "a").write_bytes(b"here")
    assert present(tmp_path / "a") == tmp_path / "a"
    assert present("nothing") == type(tmp_path)("nothing")
    assert read_regular(tmp_path / "a") == b"here"


def test_a_file_that_cannot_be_seen_is_brought_once(tmp_path, driver):
    named = tmp_path / "runs" / "a.bin"
    named.write_bytes(b"weights")
    offer(tmp_path / "runs")
    asked = driver()
    copy = present(named)
    assert copy.read_bytes() == b"weights"
    assert copy.suffix == ".bin"
    assert not named.exists()
    assert present("runs/a.bin") == copy  # from the driver's working folder
    assert read_regular(named) == b"weights"
    assert len(asked) == 3
    assert len(list(copy.parent.glob("*.bin"))) == 1


def test_a_file_that_the_driver_changes_is_brought_again(tmp_path, driver):
    named = tmp_path / "runs" / "a"
    named.write_bytes(b"old")
    offer(named)
    driver()
    assert read_regular(named) == b"old"
    (tmp_path / "hidden" / "a").write_bytes(b"newer")
    assert read_regular(named) == b"newer"


def test_large_files_come_in_pieces(tmp_path, driver, monkeypatch):
    monkeypatch.setattr(offered, "PIECE", 1000)
    monkeypatch.setattr(offered, "SMALL", 10)
    content = os.urandom(3500)
    (tmp_path / "runs" / "a").write_bytes(content)
    offer(tmp_path / "runs")
    asked = driver()
    assert read_regular(tmp_path / "runs" / "a") == content
    assert len(asked) == 5  # what it is, and four pieces


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(offered, "PIECE", 10)
    monkeypatch.setattr(offered, "SMALL", 10)
    path = tmp_path / "a"
    path.write_bytes(bytes(25))
    offer(path)

    def ask(_, start, known):
        if start == 10:
            path.write_bytes(bytes(26))
        return answer(str(path), start, known)

    files.use(Source(ask, "/", "test"))
    with pytest.raises(PivecError, match="changed while it was brought"):
        present("/not/here")


def test_what_lies_here_under_the_same_name_is_not_taken_for_the_drivers(tmp_path, driver):
    named = tmp_path / "runs" / "a"
    named.write_bytes(b"theirs")
    offer(tmp_path / "runs")
    driver()
    named.parent.mkdir()
    named.write_bytes(b"other!")
    os.utime(named, (1, 1))
    assert read_regular(named) == b"theirs"
    (named.parent / "alone").write_bytes(b"only here")
    assert read_regular(named.parent / "alone") == b"only here"
    assert files.names_in(str(named.parent)) == ("a",)


def test_a_folder_that_both_see_is_asked_for_once(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
    offer(tmp_path)
    asked = []
    files.use(Source(lambda *arguments: asked.append(arguments) or answer(*arguments), "/", "t"))
    assert [present(tmp_path / name) for name in "abc"] == [tmp_path / name for name in "abc"]
    assert files.names_in(str(tmp_path)) == ("a", "b", "c")
    assert len(asked) == 1


def test_folders_are_listed_where_the_driver_has_them(tmp_path, driver, monkeypatch):
    (tmp_path / "runs" / "deep").mkdir()
    offer(tmp_path / "runs")
    driver()
    hidden, named = tmp_path / "hidden", str(tmp_path / "runs")
    assert files.names_in(named) == ("deep/",)
    assert files.time_of(named) == hidden.stat().st_mtime_ns
    monkeypatch.setattr(source, "_FRESH", 0)
    (hidden / "new").touch()  # maybe within the same tick of the clock
    assert files.names_in(named) == ("deep/", "new")
    os.utime(hidden, (1, 1))
    assert files.names_in(named) == files.names_in(named) == ("deep/", "new")


def test_only_what_was_offered_can_be_asked_for(tmp_path):
    (tmp_path / "secret").write_text("x")
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a").write_text("a")
    (folder / ".hidden").write_text("x")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "in").symlink_to(folder / "a")
    offer(folder)
    assert answer(str(folder / "in")).content == b"a"
    for path in ("secret", "runs/../secret", "runs/.hidden", "runs/nothing"):
        assert answer(str(tmp_path / path)) == offered.Answer()
    refused = answer(str(folder / "out"))
    assert refused.kind == "refused"
    assert "link" in refused.content
    offer(folder / "out")  # by name
    assert answer(str(folder / "out")).content == b"x"


def test_a_refusal_is_told(tmp_path, driver):
    (tmp_path / "secret").write_text("x")
    (tmp_path / "runs" / "out").symlink_to(tmp_path / "secret")
    offer(tmp_path / "runs")
    driver()
    with pytest.raises(OSError, match="link out of the folder"):
        open_regular(tmp_path / "runs" / "out")


def test_what_is_offered_later_reaches_the_followers(tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr(offered, "followers", [heard.extend])
    offer(tmp_path)
    offer(tmp_path, tmp_path / "below")
    assert heard == [os.path.realpath(tmp_path)]


def test_copies_go_with_the_last_process_that_has_them(tmp_path):
    code = (
        "import sys; from pivec.parallel.shelf import shelf; folder = shelf('t');"
        "(folder / 'a').touch(); print(folder, flush=True); sys.stdin.read()"
    )

    def process():
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        return child, child.stdout.readline().strip()

    (first, folder), (second, same) = process(), process()
    assert folder == same
    assert os.path.exists(folder)
    first.communicate()
    assert os.path.exists(folder)
    second.kill()
    second.communicate()
    assert os.path.exists(folder)  # nobody was left to remove it
    third, _ = process()
    third.communicate()
    assert os.listdir(tmp_path) == []


def test_a_mirror_of_a_folder_that_is_seen_is_that_folder(tmp_path):
    with Mirror(tmp_path / "out") as mirror:
        there = pickle.loads(pickle.dumps(mirror))
        with there.here(pytest.fail) as place:
            (place / "a").touch()
            there.send()
        assert place == tmp_path / "out"
    assert os.listdir(tmp_path / "out") == ["a"]


def test_new_and_changed_files_of_a_mirror_travel(tmp_path, driver, monkeypatch):
    monkeypatch.setattr(files, "PIECE", 1000)
    folder = tmp_path / "runs"
    (folder / "state").mkdir()
    (folder / "state" / "kept").write_text("kept")
    (folder / "state" / "old").write_text("old")
    large = os.urandom(2500)
    with Mirror(folder) as mirror:
        driver()
        there = pickle.loads(pickle.dumps(mirror))
        mirror.folder = tmp_path / "hidden"  # which this side sees
        messages = []
        with there.here(messages.append, bring=True) as place:
            assert (place / "state" / "kept").read_text() == "kept"
            (place / "state" / "old").write_text("newer")
            (place / "new").mkdir()
            (place / "new" / "large").write_bytes(large)
            there.send()
            assert len(messages) == 4  # of which the large file is three
            (place / "state" / "kept").unlink()
            (place / "empty").touch()
            (place / ".temporary").touch()
        assert len(messages) == 6
        assert not place.exists()
        assert all(map(mirror.receive, messages))
        assert not mirror.receive("another message")
        assert (mirror.folder / "new" / "large").read_bytes() == large
        assert (mirror.folder / "state" / "old").read_text() == "newer"
    names = sorted(path.name for path in mirror.folder.rglob("*"))
    assert names == ["empty", "large", "new", "old", "state"]


def test_what_a_mirror_is_sent_stays_in_its_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    with Mirror(tmp_path / "out") as mirror:
        for name in ("../a", "/a", "x/../../a", "link/a", ""):
            with pytest.raises(PivecError, match="not below"):
                mirror.receive(SentBytes("s", name, 0, b"x", last=True))
        mirror.receive(SentBytes("s", "half", 0, b"x", last=False))
    assert os.listdir(tmp_path / "out") == ["link"]


def test_tokens_of_killed_processes_go(tmp_path):
    kill = (
        "import os; from pivec.parallel.files import Mirror;"
        f"mirror = Mirror({str(tmp_path)!r}).__enter__(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", kill], check=True)
    assert len(os.listdir(tmp_path)) == 1
    with Mirror(tmp_path) as first, Mirror(tmp_path) as second:
        assert sorted(os.listdir(tmp_path)) == sorted([first.token, second.token])
    assert os.listdir(tmp_path) == []


def test_a_mirror_that_can_bring_nothing_says_so(tmp_path, driver):
    with Mirror(tmp_path / "runs") as mirror:
        driver()
        files.use(None)
        with pytest.raises(PivecError, match="cannot be seen"), mirror.here(print, bring=True):
            pass
        mirror.folder = tmp_path / "hidden"


def test_modules_that_cannot_be_seen_are_imported(tmp_path, driver, monkeypatch):
    folder = tmp_path / "runs"
    (folder / "far_package").mkdir()
    (folder / "far_package" / "__init__.py").write_text("from far_package.part import number")
    (folder / "far_package" / "part.py").write_text("number = 3")
    (folder / "far_module.py").write_text("from far_package import number")
    (folder / "secret.txt").write_text("x")
    monkeypatch.setattr(offered, "_modules", {str(tmp_path / "hidden")})
    monkeypatch.setattr(source, "_FRESH", 1e9)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    asked = driver()
    modules.use(files._source, [str(folder)])
    import far_module

    assert far_module.number == 3
    assert not present(folder / "secret.txt").exists()
    n_asked = len(asked)
    for _ in range(3):
        with pytest.raises(ModuleNotFoundError):
            import far_nothing  # noqa: F401
    assert len(asked) == n_asked  # names are known
    for name in ("far_module", "far_package", "far_package.part"):
        del sys.modules[name]


def test_folders_of_modules_are_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), os.__file__])
    monkeypatch.chdir(tmp_path)
    own = modules.own_folders()
    assert own.count(str(tmp_path)) == 1
    assert not [place for place in own if place.startswith((sys.prefix, sys.base_prefix))]
