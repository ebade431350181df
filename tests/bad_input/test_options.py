"""The further arguments of every numpy-like function, each replaced by what it cannot be: an error in the documented
form, or an answer, but nothing of Python's or numpy's own."""

import datetime
import resource
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from refusals import check_form

import xlapy
from xlapy.errors import XlapyError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.arange(3, dtype=np.float32)
I = np.arange(3, dtype=np.int32)

OTHERS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "a text": lambda: "abc",
    "bytes": lambda: b"abc",
    "a float": lambda: 1.5,
    "a negative number": lambda: -5,
    "a large integer": lambda: 10**30,
    "a huge integer": lambda: 2**5000,
    "an integer beyond 64 bits": lambda: 2**63,
    "a truth value": lambda: True,
    "a complex number": lambda: 1j,
    "no number": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "an empty list": list,
    "an empty tuple": tuple,
    "a dictionary": lambda: {"a": 1},
    "a set": lambda: {1},
    "an object": object,
    "a function": lambda: len,
    "a class": lambda: int,
    "an ellipsis": lambda: ...,
    "a slice of floats": lambda: slice(1.5),
    "a ragged list": lambda: [[1], [1, 2]],
    "nested lists": lambda: [[0, 1]],
    "a list of nothing": lambda: [None],
    "a mixed tuple": lambda: (1, "a"),
    "a repeated axis": lambda: (0, 0),
    "a large shape": lambda: (10**12,),
    "an iterator": lambda: iter([1, 2]),
    "a range": lambda: range(3),
    "a date": lambda: datetime.date(2020, 1, 1),
    "an array": lambda: np.ones((2, 2)),
    "an empty array": lambda: np.zeros(0),
    "an array of rank 0": lambda: np.array(1),
    "texts": lambda: np.array(["a"]),
    "records": lambda: np.zeros(2, [("a", "f4")]),
    "narrow floats": lambda: np.zeros(2, ml_dtypes.float8_e4m3fn),
    "a tensor": lambda: xlapy.asarray(V),
    "a scalar tensor": lambda: xlapy.asarray(1),
    "an empty tensor": lambda: xlapy.zeros(0),
    "an element type": lambda: xlapy.float32,
    "a spec": lambda: xlapy.TensorSpec((3,), "f32"),
}

Call = tuple[tuple[Any, ...], dict[str, Any]]
_REDUCED: Call = ((X,), {"axis": 0, "keepdims": False})
_MADE: Call = ((3,), {"dtype": "f32", "device": None})
CALLS: dict[str, Call] = {
    **dict.fromkeys(("max", "min", "any", "all", "ptp", "argmax", "argmin", "count_nonzero", "logsumexp"), _REDUCED),
    **dict.fromkeys(("sum", "prod", "mean"), ((X,), {"axis": 0, "keepdims": False, "dtype": "f32"})),
    **dict.fromkeys(("var", "std"), ((X,), {"axis": 0, "correction": 0, "ddof": 0, "dtype": "f32"})),
    **dict.fromkeys(("zeros", "ones", "empty"), _MADE),
    **dict.fromkeys(("softmax", "log_softmax"), ((X,), {"axis": 0})),
    **dict.fromkeys(("sort", "argsort"), ((X,), {"axis": 0, "descending": False, "stable": True})),
    **dict.fromkeys(("cumsum", "cumprod"), ((X,), {"axis": 0, "dtype": "f32"})),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), ((X,), {"axis": 0, "include_initial": False})),
    **dict.fromkeys(("split", "array_split"), ((X, 2), {"axis": 0})),
    **dict.fromkeys(("vstack", "hstack"), (([V, V],), {})),
    **dict.fromkeys(("tril", "triu"), ((X,), {"k": 0})),
    **dict.fromkeys(("permute_dims", "transpose"), ((X, (1, 0)), {})),
    **dict.fromkeys(("diagonal", "trace"), ((X,), {"offset": 0, "axis1": 0, "axis2": 1})),
    "gelu": ((X,), {"approximate": False}), "one_hot": ((I, 3), {"dtype": "f32", "axis": -1}),
    "average": ((X,), {"axis": 0, "weights": np.ones(2, np.float32), "keepdims": False}),
    "clip": ((X, 0, 1), {}), "isclose": ((V, V), {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False}),
    "round": ((X,), {"decimals": 1}), "where": ((V, V, V), {}), "isin": ((I, [1]), {"invert": False}),
    "searchsorted": ((V, V), {"side": "left", "sorter": None}), "lexsort": (([V, V],), {"axis": -1}),
    "diff": ((X,), {"n": 1, "axis": 0}), "reshape": ((X, (3, 2)), {"copy": None, "order": "C"}),
    "swapaxes": ((X, 0, 1), {}), "moveaxis": ((X, 0, 1), {}), "squeeze": ((X[:1],), {"axis": 0}),
    "expand_dims": ((X,), {"axis": 0}), "broadcast_to": ((V, (2, 3)), {}), "flip": ((X,), {"axis": 0}),
    "rot90": ((X,), {"k": 1, "axes": (0, 1)}), "roll": ((X, 1), {"axis": 0}),
    "concatenate": (([V, V],), {"axis": 0, "dtype": None}), "stack": (([V, V],), {"axis": 0}),
    "append": ((V, V), {"axis": 0}), "tile": ((V, 2), {}), "repeat": ((V, 2), {"axis": 0}),
    "pad": ((X, 1), {"mode": "reflect", "constant_values": 0}), "vsplit": ((X, 2), {}), "hsplit": ((X, 3), {}),
    "dsplit": ((X[:, :, None], 1), {}), "unstack": ((X,), {"axis": 0}), "take": ((X, [0]), {"axis": 0}),
    "take_along_axis": ((X, np.zeros((2, 3), np.int32)), {"axis": 0}), "tensordot": ((X, X.T), {"axes": 1}),
    "einsum": (("ij,jk->ik", X, X.T), {"precision": None}), "vecdot": ((V, V), {"axis": -1}),
    "matmul": ((X, X.T), {"precision": None, "preferred_element_type": None}),
    "full": ((3, 1.0), {"dtype": "f32", "device": None}), "full_like": ((V, 1.0), {"dtype": "f32", "device": None}),
    "arange": ((0, 5, 1), {"dtype": "s32", "device": None}),
    "linspace": ((0, 1, 5), {"endpoint": True, "dtype": "f32", "device": None}),
    "eye": ((3, 3), {"k": 0, "dtype": "f32", "device": None}), "identity": ((3, "f32"), {}),
    "tri": ((3, 3, 0), {"dtype": "f32"}), "meshgrid": ((V, V), {"indexing": "xy"}),
    "asarray": ((V,), {"dtype": "f32", "device": None, "copy": None}), "from_dlpack": ((V,), {"copy": None}),
    "astype": ((V, "s32"), {"copy": True, "device": None}), "result_type": ((V, "f32"), {}),
    "can_cast": (("f32", "f64"), {}), "isdtype": (("f32", "integral"), {}), "finfo": (("f32",), {}),
    "iinfo": (("s32",), {}), "broadcast_shapes": (((3,), (2, 1)), {}), "power": ((V, V), {}),
}  # fmt: skip
_DRAWN: dict[str, Any] = {"shape": 3, "dtype": "f32"}
RANDOM: dict[str, Call] = {
    "key": ((0,), {}), "split": (("key", 2), {}), "fold_in": (("key", 3), {}),
    "bits": (("key",), {"shape": 3, "dtype": "u32"}), "normal": (("key",), _DRAWN), "gumbel": (("key",), _DRAWN),
    "uniform": (("key",), {**_DRAWN, "minval": 0.0, "maxval": 1.0}), "exponential": (("key",), _DRAWN),
    "truncated_normal": (("key", -1.0, 1.0), _DRAWN), "bernoulli": (("key", 0.5), {"shape": 3}),
    "randint": (("key", 3, 0, 5), {"dtype": "s32"}), "categorical": (("key", V), {"axis": -1, "shape": (2,)}),
    "choice": (("key", V), {"shape": (2,), "replace": False, "p": np.ones(3, np.float32) / 3, "axis": 0}),
    "permutation": (("key", V), {"axis": 0}),
}  # fmt: skip


def calls(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The calls of a function in which one argument is something else."""
    space, _, short = name.rpartition(".")
    args, options = (RANDOM if space else CALLS)[short]
    function = getattr(xlapy.random if space else xlapy, short)
    given = [xlapy.random.key(0) if type(a) is str and a == "key" else a for a in args]
    for text, make in OTHERS.items():
        for i in range(len(given)):
            changed = [*given[:i], make(), *given[i + 1 :]]
            yield f"{text} for argument {i}", lambda c=changed: function(*c, **options)
        for option in options:
            changed_options = {**options, option: make()}
            yield f"{text} for {option}", lambda c=changed_options: function(*given, **c)


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """What is too large has to be refused before it is allocated."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (min(16 << 30, before[1]) if before[1] > 0 else 16 << 30, before[1])
    )
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", [*CALLS, *[f"random.{n}" for n in RANDOM]])
def test_what_an_argument_cannot_be(name: str) -> None:
    with xlapy.use_backend("interpreter"):
        for what, call in calls(name):
            for way in (call, xlapy.compile(lambda call=call: xlapy.tree.flatten(call())[0])):
                try:
                    way()
                except XlapyError as error:
                    check_form(error)
                except Exception as error:
                    if "must return tensors" not in str(error):
                        pytest.fail(f"{what}: {error!r}")
