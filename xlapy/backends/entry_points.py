"""The backends that installed packages offer, found without the time that `importlib.metadata` takes to import.

It reads every package's metadata through a mail parser, a zip reader and a csv reader; where no package says
anything, which a look at the directories tells, nothing of that is needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from typing import Any, Final

__all__ = ["offered_backends"]

GROUP: Final = "xlapy.backends"


def offered_backends() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The name of each backend that an installed package offers in the entry-point group ``xlapy.backends``.

    Yields
    ------
    (str, callable)
        The callable loads the package and gives the backend; its ``__module__`` says where it comes from.
    """
    if not _may_offer():
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):

        def load(entry: Any = entry) -> Any:
            return entry.load()()

        load.__module__ = entry.value
        yield entry.name, load


def _may_offer() -> bool:
    # Another finder may know of packages that lie in no directory.
    if any(f is not PathFinder and hasattr(f, "find_distributions") for f in sys.meta_path):
        return True
    return any(_mentions(folder or ".") for folder in sys.path)


def _mentions(folder: str) -> bool:
    """Whether a package in a folder may have an entry point of the group; an archive may."""
    try:
        names = os.listdir(folder)
    except NotADirectoryError:
        return True
    except OSError:
        return False
    for name in names:
        if name.endswith((".dist-info", ".egg-info", ".egg")):
            if name.endswith(".egg"):
                return True
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    if GROUP.encode() in file.read():
                        return True
            except OSError:
                continue
    return False
