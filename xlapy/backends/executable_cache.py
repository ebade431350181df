"""Compiled programs kept on disk, so that the next process loads them instead of compiling.

An entry is a file named by the hash of everything that decided how the program was compiled. XLA
takes entries of another version, of another processor, and broken ones without a word, so the name
carries the former and the file a checksum. Whatever is wrong with an entry or with the directory
costs a compilation, never an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import random
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

__all__ = ["ExecutableCache", "cache_key", "default_cache", "host_fingerprint"]

_log = logging.getLogger(__name__)

# Changes with the layout of an entry or of the key.
_MAGIC: Final = b"xlapy executable 1\n"
_DIGEST: Final = 32
_DEFAULT_LIMIT: Final = 1 << 30
# A small file counts as this much, which bounds their number and so the time that trimming takes.
_SMALLEST: Final = 1 << 16


@final
class ExecutableCache:
    """A directory of compiled programs.

    Parameters
    ----------
    directory : Path or None
        Made when first written to, readable by its owner only. None is a cache that keeps nothing.
    limit : int
        The size in bytes above which the entries that were not used for the longest time go.
    """

    def __init__(self, directory: Path | None, limit: int = _DEFAULT_LIMIT) -> None:
        self.directory = directory
        self.limit = limit
        self._usable: bool | None = None if directory is not None else False

    def load(self, key: str) -> bytes | None:
        """The entry of a key; None where there is none or it is not sound."""
        if self.directory is None or not self._prepare():
            return None
        path = self.directory / key
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(error)
            return None
        header = len(_MAGIC) + _DIGEST
        found = data[len(_MAGIC) : header]
        body = data[header:]
        if data[: len(_MAGIC)] != _MAGIC or found != _checksum(key, body):
            _log.info("the cached executable %s is damaged and will be built again", path)
            self.discard(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # its last use, which decides what is dropped
        return body

    def store(self, key: str, body: bytes) -> None:
        """Keep an entry; readers see all of it or nothing."""
        if self.directory is None or not self._prepare():
            return
        name = ""
        try:
            # mkstemp makes a file that its owner alone can read.
            handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.directory)
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _checksum(key, body) + body)
            os.replace(name, self.directory / key)
        except OSError as error:
            if name:
                Path(name).unlink(missing_ok=True)
            self._give_up(error)
            return
        # Looking at every file each time would cost more than it saves. By chance, and more often
        # for larger entries, the directory outgrows its limit by a sixteenth on average.
        if random.random() * self.limit < 16 * max(len(body), _SMALLEST):
            self.trim()

    def discard(self, key: str) -> None:
        """Remove an entry, such as one that XLA does not load."""
        if self.directory is not None:
            try:
                (self.directory / key).unlink(missing_ok=True)
            except OSError as error:
                self._give_up(error)

    def trim(self) -> None:
        """Remove the entries used longest ago until a tenth of the limit is free."""
        if self.directory is None:
            return
        entries: list[tuple[float, int, str]] = []
        try:
            with os.scandir(self.directory) as files:
                for file in files:
                    status = file.stat(follow_symlinks=False)
                    if file.name.startswith(_TEMPORARY):
                        # What a process left behind that was stopped while it wrote.
                        if status.st_mtime < time.time() - 3600:
                            Path(file.path).unlink(missing_ok=True)
                        continue
                    size = max(status.st_size, min(_SMALLEST, self.limit // 16))
                    entries.append((status.st_mtime, size, file.path))
            total = sum(size for _, size, _ in entries)
            if total <= self.limit:
                return
            entries.sort()
            for _, size, path in entries:
                if total <= self.limit - self.limit // 10:
                    break
                Path(path).unlink(missing_ok=True)
                total -= size
        except OSError as error:
            # Another process may trim at the same time.
            _log.debug("the executable cache %s could not be trimmed: %s", self.directory, error)

    def _prepare(self) -> bool:
        """Whether the directory is there and its owner is the only one who can write to it."""
        if self._usable is None and self.directory is not None:
            try:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                status = self.directory.stat()
                # What is loaded from here runs as machine code.
                foreign = hasattr(os, "getuid") and (
                    status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
                )
                if foreign:
                    raise PermissionError("others can write to it")
                self._usable = True
            except OSError as error:
                self._give_up(error)
        return bool(self._usable)

    def _give_up(self, error: OSError) -> None:
        # Once, and not through `warnings`: the program runs as well without a cache.
        if self._usable is not False:
            _log.warning("executables are not cached in %s: %s", self.directory, error)
        self._usable = False


_TEMPORARY: Final = ".writing-"


def _checksum(key: str, body: bytes) -> bytes:
    # With the key in it, an entry under another's name is not sound either.
    digest = hashlib.blake2b(key.encode(), digest_size=_DIGEST)
    digest.update(body)
    return digest.digest()


def default_cache() -> ExecutableCache:
    """The cache that the environment asks for.

    ``XLAPY_CACHE_DIR`` names the directory (empty: no cache); without it the user's cache directory
    is taken. ``XLAPY_CACHE_SIZE`` is the limit in bytes, by default 1 GiB.
    """
    return _cache_of(os.environ.get("XLAPY_CACHE_DIR"), os.environ.get("XLAPY_CACHE_SIZE", ""))


@functools.lru_cache(maxsize=8)
def _cache_of(directory: str | None, limit: str) -> ExecutableCache:
    if directory == "":
        return ExecutableCache(None)
    try:
        base = Path(directory).expanduser() if directory is not None else _user_directory()
    except RuntimeError:  # a user without a home
        return ExecutableCache(None)
    size = int(limit) if limit.isdecimal() else _DEFAULT_LIMIT
    return ExecutableCache(base / "executables", size)


def _user_directory() -> Path:
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "xlapy" / "cache"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of that variable has relative paths ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "xlapy"


# --- keys -----------------------------------------------------------------------------------------


def cache_key(parts: Iterable[str | bytes]) -> str:
    """The name of an entry: a hash of all that decides how a program is compiled.

    Parameters
    ----------
    parts : iterable of str or bytes
        In a fixed order. Where one ends and the next starts counts.
    """
    digest = hashlib.blake2b(_MAGIC, digest_size=_DIGEST)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@functools.cache
def host_fingerprint() -> str:
    """The processor, its features and how many there are: what code for the CPU is compiled for."""
    lines = {platform.machine(), platform.processor(), str(os.cpu_count())}
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features", "model name", "CPU part"):
                    lines.add(value.strip())
    except OSError:
        pass
    return "\n".join(sorted(lines))
