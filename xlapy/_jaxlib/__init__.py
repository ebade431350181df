"""The only package that imports jaxlib, whose interface is private and changes by version.

Plain functions over numpy dtypes and shapes; what jaxlib hands out (clients, devices, executables,
buffers, MLIR modules) is opaque to everyone else. Importing this package imports jaxlib, so others
import it when a backend is opened or a program is read or written, never at their top. What reads
and writes programs needs MLIR's dialects as well (20 ms) and is loaded at its first use.

jaxlib checks next to nothing: a wrong shape, dtype or byte order is taken silently and computes
garbage. So every array is checked in `put`, and `make_runner` compares its results with the
compiled program's own signature.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# XLA logs every device it finds to stderr unless told not to; read when the library is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from xlapy._jaxlib.arrays import (
    assemble,
    block_until_ready,
    check_alive,
    copy_to,
    delete,
    get,
    placement,
    put,
    put_shards,
    putter,
    shards,
)
from xlapy._jaxlib.callbacks import GuardedCallbacks, make_callback
from xlapy._jaxlib.clients import (
    cpu_client,
    devices,
    find_plugins,
    platform,
    plugin_client,
    plugin_identity,
    version,
)
from xlapy._jaxlib.executables import (
    compile,
    cost_analysis,
    deserialize,
    fingerprint,
    giving_away,
    hlo_text,
    make_calling_runner,
    make_runner,
    make_wrapping_runner,
    memory_stats,
    serialize,
    signature,
)
from xlapy._jaxlib.foreign import custom_call_targets, register_lapack, register_target
from xlapy._jaxlib.groups import doubt_arguments, make_group_runner

if TYPE_CHECKING:
    from xlapy._jaxlib.programs import (
        clone,
        compatible_version,
        current_version,
        evaluate,
        evaluate_grid,
        from_hlo,
        generic_text,
        has_composites,
        minimum_version,
        parse,
        read,
        refine_shapes,
        run_passes,
        serialize_artifact,
        text,
        to_hlo,
    )

_PROGRAMS = (
    "clone", "compatible_version", "current_version", "evaluate", "evaluate_grid",
    "from_hlo", "generic_text", "has_composites", "minimum_version", "parse", "read", "refine_shapes", "run_passes",
    "serialize_artifact", "text", "to_hlo",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PROGRAMS:
        from xlapy._jaxlib import programs

        for each in _PROGRAMS:
            globals()[each] = getattr(programs, each)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "GuardedCallbacks",
    "assemble",
    "block_until_ready",
    "check_alive",
    "clone",
    "compatible_version",
    "compile",
    "copy_to",
    "cost_analysis",
    "cpu_client",
    "current_version",
    "custom_call_targets",
    "delete",
    "deserialize",
    "devices",
    "doubt_arguments",
    "evaluate",
    "evaluate_grid",
    "find_plugins",
    "fingerprint",
    "from_hlo",
    "generic_text",
    "get",
    "giving_away",
    "has_composites",
    "hlo_text",
    "make_callback",
    "make_calling_runner",
    "make_group_runner",
    "make_runner",
    "make_wrapping_runner",
    "memory_stats",
    "minimum_version",
    "parse",
    "placement",
    "platform",
    "plugin_client",
    "plugin_identity",
    "put",
    "put_shards",
    "read",
    "putter",
    "refine_shapes",
    "register_lapack",
    "register_target",
    "run_passes",
    "serialize",
    "serialize_artifact",
    "shards",
    "signature",
    "text",
    "to_hlo",
    "version",
]
