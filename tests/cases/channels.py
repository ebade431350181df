"""Cases of send, recv and their halves; what goes between devices is in tests/ops/test_channels.py."""

from __future__ import annotations

from cases import ErrorCase, OpCase
from xlapy.specs import parse_spec

RUNS = ("kernel", "pjrt", "vmap", "jvp", "vjp")
OTHER_END = dict.fromkeys(RUNS, "needs another end; see tests/ops/test_channels.py")

NOTHING = {"pjrt": "XLA does not run it"}


def channel(host: int, **given: object) -> dict[str, object]:
    """Parameters of a send (host 2) or recv (host 3)."""
    flag = given.get("is_host_transfer", False)
    return {
        "channel_id": 1, "channel_type": host if flag else 1, "is_host_transfer": False,
        "source_target_pairs": (), **given,
    }  # fmt: skip


def send(**given: object) -> dict[str, object]:
    """Parameters of a send."""
    return channel(2, **given)


def recv(*results: str, **given: object) -> dict[str, object]:
    """Parameters of a recv."""
    return {"results": tuple(map(parse_spec, results)), **channel(3, **given)}


PAIRS = ((0, 1), (1, 2), (2, 0))
HALF = {"roundtrip": "StableHLO has no halves: it is written as nothing"}
X, T = ["f32[2,3]", "token[]"], ["token[]"]

CASES: list[OpCase] = [
    OpCase("send", X, send(), skip=OTHER_END, name="device"),
    OpCase("send", X, send(source_target_pairs=PAIRS, channel_id=0), skip=OTHER_END, name="replicas"),
    OpCase("send", X, send(source_target_pairs=((3, 1),), channel_id=2**62), skip=OTHER_END, name="partitions"),
    OpCase("send", X, send(is_host_transfer=True), skip=OTHER_END, name="host"),
    OpCase("send", ["f32[2]", "s4[]", "c64[0]", "token[]"], send(), skip=OTHER_END, name="several"),
    OpCase("send", T, send(), skip=NOTHING, name="nothing"),
    OpCase("recv", T, recv("f32[2,3]"), skip=OTHER_END, name="device"),
    OpCase("recv", T, recv("f32[2,3]", source_target_pairs=PAIRS, channel_id=-4), skip=OTHER_END, name="replicas"),
    OpCase("recv", T, recv("f32[2]", source_target_pairs=((0, 0),)), skip=OTHER_END, name="partitions"),
    OpCase("recv", T, recv("f32[2,3]", is_host_transfer=True), skip=OTHER_END, name="host"),
    OpCase("recv", T, recv("f32[2]", "pred[]", "s4[3]"), skip=OTHER_END, name="several"),
    OpCase("recv", T, recv(), skip=NOTHING, name="nothing"),
    OpCase("send_done", T, skip={**HALF, "pjrt": "XLA sends nothing"}),
    OpCase("recv_done", ["f64[2]", "s32[]", "token[]"], skip={**HALF, "pjrt": "XLA receives nothing"}, tol=0.0),
]  # fmt: skip

ERRORS: list[ErrorCase] = [
    ErrorCase("send", ["(f32[2])", "token[]"], send(), "I1", "arrays"),
    ErrorCase("send", ["f32[2]"], send(), "I2", "token"),
    ErrorCase("send", X, send(source_target_pairs=((0, 1.5),)), "I3", "integers"),
    ErrorCase("send", X, send(channel_id=2**63), "I4", "64 bits"),
    ErrorCase("send", X, send(channel_id=None), "I4", "64 bits"),
    ErrorCase("send", X, send(channel_type=0), "I5", "channel_type"),
    ErrorCase("send", X, send(is_host_transfer=1), "I6", "bool"),
    ErrorCase("send", X, send(source_target_pairs=((0, 1, 2),)), "C1", "two"),
    ErrorCase("send", X, send(source_target_pairs=((0, 1), (0, 2))), "C2", "sources"),
    ErrorCase("send", X, send(source_target_pairs=((0, 1), (2, 1))), "C3", "targets"),
    ErrorCase("send", X, send(source_target_pairs=((0, -1),)), "C4", "negative"),
    ErrorCase("send", X, send(channel_type=2), "C5", "DEVICE_TO_DEVICE"),
    ErrorCase("send", X, send(is_host_transfer=True, channel_type=3), "C5", "DEVICE_TO_HOST"),
    ErrorCase("recv", ["f32[2]"], recv("f32[2]"), "I1", "token"),
    ErrorCase("recv", T, recv("f32[2]", source_target_pairs=[(0, 1)]), "I2", "tuples"),
    ErrorCase("recv", T, recv("f32[2]", channel_id="1"), "I3", "64 bits"),
    ErrorCase("recv", T, recv("f32[2]", channel_type="host"), "I4", "channel_type"),
    ErrorCase("recv", T, recv("f32[2]", is_host_transfer=None), "I5", "bool"),
    ErrorCase("recv", T, recv("f32[2]", source_target_pairs=((0,),)), "C1", "two"),
    ErrorCase("recv", T, recv("f32[2]", source_target_pairs=((1, 1), (1, 0))), "C2", "sources"),
    ErrorCase("recv", T, recv("f32[2]", source_target_pairs=((1, 1), (0, 1))), "C3", "targets"),
    ErrorCase("recv", T, recv("f32[2]", source_target_pairs=((-1, 1),)), "C4", "negative"),
    ErrorCase("recv", T, recv("f32[2]", is_host_transfer=True, channel_type=2), "C5", "HOST_TO_DEVICE"),
    ErrorCase("recv", T, recv("token[]"), "X1", "arrays"),
    ErrorCase("recv", T, recv("f32[<=2]"), "X1", "known shape"),
    ErrorCase("send_done", ["f32[2]"], {}, "I1", "send"),
    ErrorCase("recv_done", ["f32[2]"], {}, "I1", "recv"),
    ErrorCase("recv_done", ["token[]", "token[]"], {}, "I1", "recv"),
    ErrorCase("recv_done", [], {}, "I1", "recv"),
]  # fmt: skip
