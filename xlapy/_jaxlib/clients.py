"""PJRT clients: the host's processor, and other platforms through their plugins."""

# jaxlib carries few types; what leaves this package is annotated.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jaxlib import xla_client as xc
from jaxlib.version import __version__ as _version

from xlapy._jaxlib.types import Client, Device, fail
from xlapy.errors import BackendError, shown

#: the version of jaxlib
version: str = _version


def cpu_client(num_devices: int | None = None) -> Client:
    """A new client of the host's processor; several with different device counts coexist.

    Parameters
    ----------
    num_devices : int, optional
        How many devices the host pretends to have; default ``XLAPY_NUM_CPU_DEVICES``, else 1.

    Returns
    -------
    Client
    """
    if num_devices is None:
        text = os.environ.get("XLAPY_NUM_CPU_DEVICES", "") or "1"
        if not text.isdecimal():
            raise BackendError(
                f"XLAPY_NUM_CPU_DEVICES must be a positive integer; got {shown(text)} [X1]"
            )
        num_devices = int(text)
    if not 0 < num_devices <= _MOST:
        raise BackendError(
            f"the number of CPU devices must be positive and at most {_MOST}; got {num_devices} [X1]"
        )
    _read_flags()
    # A client has as many threads as devices, or as the host has processors if they are more. On one for each device
    # a program waits for the other devices, on one for each the next program waits to be started, and on one for each
    # an ordinary program runs, whose Python function may wait: with fewer, none may be left for what they wait for.
    client = xc.make_cpu_client(num_devices=3 * num_devices if num_devices > 1 else 1)
    _used[client] = num_devices
    return client


#: more devices than anyone has tried to; at some number XLA's process ends as it finds no more threads
_MOST: Final = 1024
#: how many of its devices a client of the host's processor is there for
_used: weakref.WeakKeyDictionary[Client, int] = weakref.WeakKeyDictionary()


def devices(client: Client) -> list[Device]:
    """The devices of `client` that this process can address, in order."""
    return list(client.local_devices())[: _used.get(client)]


_FLAGS: Final = "XLA_FLAGS"
#: for how many seconds the CPU's devices wait for one of theirs before XLA ends the process
_PATIENCE: Final = "--xla_cpu_collective_call_terminate_timeout_seconds"


@functools.cache
def _read_flags() -> None:
    """Have XLA read its flags, which it does once, with one more: a device may need an hour more than another."""
    given = os.environ.get(_FLAGS)
    flags = given or ""
    if _PATIENCE in flags or not re.match(r"\s*(-|$)", flags):
        return  # the user has decided, or has written them into a file
    os.environ[_FLAGS] = f"{flags} {_PATIENCE}=-1".lstrip()
    try:
        xc.CompileOptions()
    finally:
        if given is None:
            del os.environ[_FLAGS]
        else:
            os.environ[_FLAGS] = given


def platform(client: Client) -> tuple[str, str]:
    """The platform's name, such as ``"cpu"``, and the version of its runtime."""
    return client.platform, client.platform_version


def find_plugins() -> dict[str, str]:
    """The PJRT plugins that are installed: platform name to the path of the library.

    They are looked for in the ``jax_plugins`` namespace package and entry points and in ``libtpu``,
    without importing any of them: their own ``initialize`` would import jax.
    """
    import importlib.metadata
    import importlib.util

    modules = {e.value.split(":")[0] for e in importlib.metadata.entry_points(group="jax_plugins")}
    try:
        namespace = importlib.util.find_spec("jax_plugins")
    except (ImportError, ValueError):
        namespace = None
    for folder in (namespace and namespace.submodule_search_locations) or ():
        modules |= {f"jax_plugins.{p.name}" for p in Path(folder).glob("*") if p.is_dir()}
    found: dict[str, str] = {}
    for module in sorted(modules | {"libtpu"}):
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            continue
        stem = module.rpartition(".")[2]
        kinds = ("cuda", "rocm", "metal", "tpu")
        name = next((k for k in kinds if k in stem), stem.removeprefix("xla_"))
        for folder in (spec and spec.submodule_search_locations) or ():
            libraries = [p for p in sorted(Path(folder).iterdir()) if p.suffix in _LIBRARY_SUFFIXES]
            named = [p for p in libraries if re.search("pjrt|plugin|libtpu", p.name)]
            if named or libraries:
                found.setdefault(name, str((named or libraries)[0]))
    return found


_LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")
_plugin_lock = threading.Lock()


def plugin_client(name: str, options: Mapping[str, Any] | None = None) -> Client:
    """A client of another platform, through its PJRT plugin.

    Parameters
    ----------
    name : str
        ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"``, the name of another installed plugin, or the
        path to a plugin's library.
    options : mapping, optional
        Options of the plugin, such as ``{"preallocate": True}`` for CUDA, where memory is allocated
        as needed unless asked otherwise.

    Returns
    -------
    Client

    Raises
    ------
    BackendError
        If the plugin is not installed, belongs to another version of jaxlib, or finds no device.
    """
    path = name if _is_path(name) else ""
    if not path:
        plugins = find_plugins()
        path = plugins.get(name, "")
        if not path:
            known = ", ".join(["cpu", *plugins])
            hint = {
                "cuda": f"; install jax-cuda12-plugin[with-cuda]=={version} or jax-cuda13-plugin",
                "tpu": "; install libtpu",
            }.get(name, "")
            raise BackendError(
                f"a PJRT plugin for {name!r} must be installed{hint}, or give the path of its "
                f"library; got the platforms {known} [X1]"
            )
        _check_plugin_version(name, path)
    else:
        if not Path(path).is_file():
            raise BackendError(f"a PJRT plugin's library must exist; got {shown(path)} [X1]")
        path = str(Path(path).resolve())
        # jaxlib keeps plugins by name for the life of the process, jax's beside ours.
        name = f"xlapy:{path}"
    chosen: dict[str, Any] = {}
    if name in ("cuda", "rocm"):
        chosen = {"preallocate": False, **xc.generate_pjrt_gpu_plugin_options()}
        chosen["platform_name"] = "ROCM" if name == "rocm" else "cuda"
    chosen.update(options or {})
    try:
        with _plugin_lock:
            if not xc.pjrt_plugin_loaded(name):
                if name == "cuda":
                    _load_nvidia_libraries()
                api = xc.load_pjrt_plugin_dynamically(name, path)
                if name in ("cuda", "rocm"):
                    _register_gpu_targets(name, api)
            if not xc.pjrt_plugin_initialized(name):
                xc.initialize_pjrt_plugin(name)
        return xc.make_c_api_client(name, chosen)
    except (RuntimeError, ValueError) as error:
        fail(error, f"the PJRT plugin {path!r} must open with jaxlib {version}")


def plugin_identity(name: str) -> str:
    """What changes when a plugin's library does: its path, size and time; empty for the CPU."""
    path = name if _is_path(name) else find_plugins().get(name, "")
    try:
        status = os.stat(path)
    except OSError:
        return path
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


def _is_path(name: str) -> bool:
    return name.endswith(_LIBRARY_SUFFIXES) or os.sep in name


# In the order in which they need each other.
_NVIDIA_LIBRARIES = (
    "cudart", "nvrtc", "cublasLt", "cublas", "nccl", "cupti", "cusparse", "cusolver", "cufft",
    "nvshmem_host", "cudnn",
)  # fmt: skip


def _load_nvidia_libraries() -> None:
    """Load NVIDIA's libraries from their Python packages, so that the plugin finds these copies."""
    import importlib.util

    try:
        namespace = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return
    for library in _NVIDIA_LIBRARIES:
        for folder in (namespace and namespace.submodule_search_locations) or ():
            for path in sorted(Path(folder).glob(f"*/lib/lib{library}.so.*")):
                # One that does not load is looked for again by the plugin, which says what it
                # lacks.
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(path))


def _check_plugin_version(name: str, path: str) -> None:
    # CUDA plugins are built for one version of jaxlib; the others carry a version number of their
    # own, and the PJRT interface compares its version when it is opened.
    match = re.search(r"xla_(cuda\d+)", path)
    if match is None:
        return
    import importlib.metadata

    for package in (f"jax-{match[1]}-pjrt", f"jax-{match[1]}-plugin"):
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if found.split("+")[0].split(".post")[0] != version:
            raise BackendError(
                f"the {name} plugin must be of the same version as jaxlib; got {package} {found} "
                f"with jaxlib {version}: pip install {package}=={version} [X1]"
            )


def _register_gpu_targets(name: str, api: Any) -> None:
    """Make the plugin package's kernels (linear algebra, callbacks) known to the loaded plugin."""
    from jaxlib import plugin_support

    extension = plugin_support.import_from_plugin(name, f"{name}_plugin_extension")
    if extension is None:
        return
    register = functools.partial(extension.register_custom_call_target, api)
    upper = "CUDA" if name == "cuda" else "ROCM"
    xc.register_custom_call_handler(upper, register)
    if hasattr(extension, "register_custom_type"):
        xc.register_custom_type_handler(
            upper, functools.partial(extension.register_custom_type, api)
        )
    for key, value in getattr(extension, "ffi_types", dict)().items():
        xc.register_custom_type(key, value, platform=upper)
    for key, value in getattr(extension, "ffi_handlers", dict)().items():
        xc.register_custom_call_target(key, value, platform=upper, api_version=1)
