"""Compiled programs on disk: what is kept, what is refused, and what never fails."""

import logging
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from xlapy.backends import executable_cache
from xlapy.backends.executable_cache import (
    ExecutableCache,
    cache_key,
    default_cache,
    host_fingerprint,
)


@pytest.fixture
def cache(tmp_path: Path) -> ExecutableCache:
    return ExecutableCache(tmp_path / "deep" / "executables")


def entry(cache: ExecutableCache, key: str) -> Path:
    assert cache.directory is not None
    return cache.directory / key


def test_an_entry_comes_back(cache: ExecutableCache) -> None:
    assert cache.load("k") is None
    cache.store("k", b"code")
    assert cache.load("k") == b"code"
    cache.store("k", b"")
    assert cache.load("k") == b""


def test_only_the_owner_can_read_it(cache: ExecutableCache) -> None:
    cache.store("k", b"code")
    assert stat.S_IMODE(entry(cache, "k").stat().st_mode) == 0o600
    assert stat.S_IMODE(entry(cache, "k").parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"ELF" + data[3:],
    ],
    ids=["empty", "header only", "truncated", "longer", "a bit flipped", "foreign"],
)
def test_a_damaged_entry_is_dropped(cache: ExecutableCache, damage: object) -> None:
    cache.store("k", b"some machine code")
    path = entry(cache, "k")
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert cache.load("k") is None
    assert not path.exists()
    cache.store("k", b"again")
    assert cache.load("k") == b"again"


def test_an_entry_under_another_key_is_not_taken(cache: ExecutableCache) -> None:
    cache.store("k", b"code")
    os.rename(entry(cache, "k"), entry(cache, "other"))
    assert cache.load("other") is None


def test_the_entries_used_longest_ago_go(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path / "c", limit=10_000)
    for i in range(8):
        cache.store(f"k{i}", bytes(1_500))
        if (path := entry(cache, f"k{i}")).exists():
            os.utime(path, (i, i))
    # Room was made while storing, so only the later ones are there; one of them is used again.
    oldest = min(p.name for p in (tmp_path / "c").iterdir())
    assert cache.load(oldest) is not None
    for i in range(8, 12):
        cache.store(f"l{i}", bytes(1_500))
    left = {p.name for p in (tmp_path / "c").iterdir()}
    assert oldest in left
    assert "l11" in left
    assert "k0" not in left
    assert sum(p.stat().st_size for p in (tmp_path / "c").iterdir()) <= 10_000


def test_what_an_interrupted_process_left_is_removed(cache: ExecutableCache) -> None:
    cache.store("k", b"code")
    stale, fresh = entry(cache, ".writing-1"), entry(cache, ".writing-2")
    stale.touch()
    fresh.touch()
    os.utime(stale, (time.time() - 7200,) * 2)
    cache.trim()
    assert not stale.exists()
    assert fresh.exists()
    assert cache.load("k") == b"code"


def test_a_directory_that_cannot_be_made_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    cache = ExecutableCache(tmp_path / "file" / "executables")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            cache.store("k", b"code")
            assert cache.load("k") is None
            cache.discard("k")
    assert len(caplog.records) == 1


def test_a_directory_that_others_can_write_to_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "shared"
    ExecutableCache(directory).store("k", b"code")
    directory.chmod(0o777)
    cache = ExecutableCache(directory)
    with caplog.at_level(logging.WARNING):
        assert cache.load("k") is None
    assert "others can write" in caplog.text


def test_no_directory_keeps_nothing() -> None:
    cache = ExecutableCache(None)
    cache.store("k", b"code")
    assert cache.load("k") is None
    cache.trim()
    cache.discard("k")


def test_the_environment_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XLAPY_CACHE_SIZE", "5")
    assert default_cache().directory == tmp_path / "executables"
    assert default_cache().limit == 5
    assert default_cache() is default_cache()
    monkeypatch.setenv("XLAPY_CACHE_DIR", "")
    assert default_cache().directory is None
    monkeypatch.delenv("XLAPY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    executable_cache._cache_of.cache_clear()
    assert default_cache().directory == tmp_path / "xdg" / "xlapy" / "executables"
    executable_cache._cache_of.cache_clear()


def test_writers_at_the_same_time_leave_a_whole_entry(cache: ExecutableCache) -> None:
    def write(byte: int) -> None:
        for _ in range(20):
            cache.store("k", bytes([byte]) * 5_000)
            found = cache.load("k")
            assert found is not None
            assert len(set(found)) == 1

    failures: list[BaseException] = []

    def run(byte: int) -> None:
        try:
            write(byte)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(b,)) for b in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert entry(cache, "k").parent.is_dir()
    assert [p.name for p in entry(cache, "k").parent.iterdir()] == ["k"]


def test_a_key_depends_on_each_part_and_its_bounds() -> None:
    keys = [
        cache_key(parts)
        for parts in ([], ["a"], ["a", ""], ["", "a"], ["ab", "c"], ["a", "bc"], [b"x"])
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key(["a", "b"]) == cache_key([b"a", b"b"])
    assert host_fingerprint()
