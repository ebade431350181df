"""Many programs, in child processes: whatever a compiler does to its process, the campaign goes on."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xlapy.trace.op import registry

from .checks import CHECKS, run_check
from .evaluation import KernelError
from .generators import WITHOUT
from .programs import EVERYTHING, Focus, Program, all_instructions, write
from .reproduction import script
from .setting import Fault, Setting
from .shrinking import shrink

#: how long a program may take before its process is ended
PATIENCE = 120.0
_fork = multiprocessing.get_context("fork")
#: what the counts of operations, and of seconds of processors, are named by
DRAWN = "drawn: "
SPENT = "spent: "


@dataclass(frozen=True)
class Found:
    """A fault of a program.

    Attributes
    ----------
    seed : tuple of int
    check, op : str
        As of `Fault`; the check is ``"abort"`` or ``"hang"`` where the process was lost.
    text : str
    """

    seed: tuple[int, ...]
    check: str
    op: str
    text: str

    @property
    def kind(self) -> tuple[str, str]:
        """As of `Fault`."""
        return self.check, self.op


@dataclass
class Report:
    """What came of a campaign."""

    programs: int = 0
    found: list[Found] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Report) -> None:
        """What came of another part of it."""
        self.programs += other.programs
        self.found += other.found
        self.counts += other.counts


def faults_of(
    setting: Setting,
    seed: Sequence[int],
    focus: Focus = EVERYTHING,
    skip: frozenset[str] = frozenset(),
) -> Iterator[Found]:
    """The faults of the program of a seed."""
    started = time.process_time()
    try:
        program = write(seed, focus)
    except KernelError as error:
        text = str(error)
        yield Found(tuple(seed), "kernel", text.split(":")[0] + ":" + text.split(":")[1], text)
        return
    except Exception as error:
        first = str(error).split("\n")[0]
        yield Found(
            tuple(seed),
            "record",
            f"{type(error).__name__} {first[:60]}",
            f"{type(error).__name__}: {error}",
        )
        return
    setting.counts[f"{SPENT}drawing"] += time.process_time() - started
    for instruction in all_instructions(program.computation):
        setting.counts[f"{DRAWN}{instruction.op.name}"] += 1
    for name in CHECKS:
        if name in skip:
            continue
        started = time.process_time()
        try:
            run_check(setting, name, program)
        except Fault as fault:
            yield Found(tuple(seed), fault.check, fault.op, str(fault))
        setting.counts[f"{SPENT}{name}"] += time.process_time() - started


def _child(
    setting: Setting, seeds: Sequence[tuple[int, ...]], focus: Focus, end: float, errors: str, pipe: Any,
    unstepped: frozenset[tuple[int, ...]],
) -> None:  # fmt: skip
    with open(errors, "w") as file:
        os.dup2(file.fileno(), 2)
    setting.began = lambda name: pipe.send(("check", name))
    for seed in seeds:
        if time.monotonic() > end:
            break
        pipe.send(("start", seed))
        skip = frozenset({"steps"}) if seed in unstepped else frozenset()
        for found in faults_of(setting, seed, focus, skip):
            pipe.send(("found", found))
        pipe.send(("done", (seed, setting.counts)))
        setting.counts = Counter()
    pipe.send(("end", None))
    pipe.close()
    os._exit(0)


def run_batch(
    setting: Setting, seeds: Sequence[tuple[int, ...]], focus: Focus, end: float, report: Report
) -> None:
    """The programs of some seeds, in as many processes as are lost."""
    pending = list(seeds)
    unstepped: set[tuple[int, ...]] = set()
    while pending and time.monotonic() < end:
        receive, send = _fork.Pipe(duplex=False)
        with tempfile.NamedTemporaryFile("r", suffix=".log") as errors:
            child = _fork.Process(
                target=_child,
                args=(
                    Setting(setting.reference, setting.tested),
                    pending,
                    focus,
                    end,
                    errors.name,
                    send,
                    frozenset(unstepped),
                ),
            )
            child.start()
            send.close()
            current: tuple[int, ...] | None = None
            reason = check = ""
            while True:
                if not receive.poll(PATIENCE):
                    child.kill()
                    reason = "hang"
                    break
                try:
                    kind, value = receive.recv()
                except EOFError:
                    reason = "abort"
                    break
                if kind == "start":
                    current = value
                elif kind == "check":
                    check = value
                elif kind == "found":
                    report.found.append(value)
                elif kind == "done":
                    report.programs += 1
                    pending.remove(value[0])
                    report.counts += value[1]
                    current = None
                else:
                    pending = []
                    break
            child.join()
            receive.close()
            if reason:
                last = errors.read()
                if current is None:
                    raise RuntimeError(f"a child process ended between programs:\n{last[-3000:]}")
                if check == "steps":
                    # The way of compiling in steps is to blame, which nobody else uses; the other checks tell.
                    report.counts[f"not done: steps: {reason} of program {current[-1]}"] += 1
                    report.found = [f for f in report.found if f.seed != current]
                    unstepped.add(current)
                    continue
                report.programs += 1
                report.found.append(
                    Found(current, reason, _cause(last), f"exit {child.exitcode}\n{_tail(last)}")
                )
                pending.remove(current)


def _cause(log: str) -> str:
    """The line of a log that says why a process was aborted."""
    for line in log.splitlines():
        if "Check failed" in line or "F0000" in line or line.startswith("F"):
            return line.split("] ")[-1][:80]
    return ""


def _tail(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("    @")]
    return "\n".join(lines[:12])


def _trial(setting: Setting, check: str, program: Program, errors: str, pipe: Any) -> None:
    with open(errors, "w") as file:
        os.dup2(file.fileno(), 2)
    checks = [check] if check in CHECKS else [c for c in CHECKS if c != "steps"]
    kinds = []
    for name in checks:
        try:
            run_check(setting, name, program)
        except Fault as fault:
            kinds.append((fault.kind, str(fault)))
    pipe.send(kinds)
    pipe.close()
    os._exit(0)


def try_program(
    setting: Setting, check: str, program: Program, patience: float = 30.0
) -> list[Any]:
    """The kinds of fault of a program under a check, each with its text, in a process of its own."""
    receive, send = _fork.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile("r", suffix=".log") as errors:
        child = _fork.Process(target=_trial, args=(setting, check, program, errors.name, send))
        child.start()
        send.close()
        found: list[Any]
        try:
            if not receive.poll(patience):
                child.kill()
                found = [(("hang", ""), "")]
            else:
                found = receive.recv()
        except EOFError:
            log = errors.read()
            found = [(("abort", _cause(log)), _tail(log))]
        child.join()
        receive.close()
    return found


def shrunk(
    setting: Setting, found: Found, focus: Focus = EVERYTHING, seconds: float = 60.0
) -> tuple[Program, str]:
    """The smallest program that fails in the same way, and how it does."""
    program = replace(write(found.seed, focus), suspects=(found.op,))
    text = found.text

    def fails(candidate: Program) -> bool:
        nonlocal text
        for kind, message in try_program(setting, found.check, candidate):
            if kind[0] == found.check and kind[1].split(":")[0] == found.op.split(":")[0]:
                text = message
                return True
        return False

    return shrink(program, fails, seconds), text


def describe(
    setting: Setting, found: Found, focus: Focus = EVERYTHING, seconds: float = 60.0
) -> str:
    """A fault with the smallest program that has it, as a script."""
    head = f"--- seed {' '.join(map(str, found.seed))}: {found.check} {found.op}\n{found.text}"
    if found.check in ("record", "kernel"):
        return head
    program, text = shrunk(setting, found, focus, seconds)
    return f"{head}\n--- shrunk: {text}\n{program.computation}\n{script(program)}"


def run_campaign(
    setting: Setting,
    seed: int,
    *,
    seconds: float = float("inf"),
    programs: int | None = None,
    focus: Focus = EVERYTHING,
    first: int = 0,
    batch: int = 40,
    jobs: int = 1,
) -> Report:
    """Programs of seeds (seed, 0), (seed, 1), ... until the time or their number is used up.

    Parameters
    ----------
    setting : Setting
    seed : int
    seconds, programs : optional
        How long, and how many.
    focus : Focus
    first : int
        The number of the first one.
    batch : int
        How many a process runs, unless it is lost.
    jobs : int
        How many run at the same time.
    """
    end = time.monotonic() + seconds
    stop = None if programs is None else first + programs
    shares = [_numbers(first + job, stop, jobs) for job in range(jobs)]
    if jobs == 1:
        return _run_share(setting, seed, shares[0], focus, end, batch)
    running = []
    for share in shares:
        receive, send = _fork.Pipe(duplex=False)
        arguments = (setting, seed, share, focus, end, batch, send)
        child = _fork.Process(target=_send_share, args=arguments)
        child.start()
        send.close()
        running.append((child, receive))
    report = Report()
    for child, receive in running:
        report.add(receive.recv())
        child.join()
    return report


def _numbers(first: int, stop: int | None, step: int) -> Iterator[int]:
    return itertools.count(first, step) if stop is None else iter(range(first, stop, step))


def _run_share(
    setting: Setting, seed: int, numbers: Iterator[int], focus: Focus, end: float, batch: int
) -> Report:
    report = Report()
    while time.monotonic() < end:
        seeds = [(seed, number) for number in itertools.islice(numbers, batch)]
        if not seeds:
            break
        run_batch(setting, seeds, focus, end, report)
    return report


def _send_share(*arguments: Any) -> None:
    *given, pipe = arguments
    pipe.send(_run_share(*given))


def summary(report: Report) -> str:
    """The numbers of a campaign."""
    elements = report.counts["elements"]
    unsure = report.counts["elements not determined"]
    lines = [
        f"{report.programs} programs, {len(report.found)} faults of {len({f.kind for f in report.found})} kinds",
        f"{elements} elements compared, {100 * unsure / max(elements, 1):.1f}% of them not determined by the kernels",
    ]
    lines += [
        f"  {n:6d} {name}"
        for name, n in sorted(report.counts.items())
        if not name.startswith(("elements", DRAWN, SPENT))
    ]
    spent = {n.removeprefix(SPENT): s for n, s in report.counts.items() if n.startswith(SPENT)}
    total = sum(spent.values())
    if total:
        most = sorted(spent, key=spent.__getitem__, reverse=True)
        lines.append(
            f"{total:.0f} s of processors, {total / max(report.programs, 1):.2f} s for a program: "
            + ", ".join(f"{name} {100 * spent[name] / total:.0f}%" for name in most)
        )
    drawn = {name: report.counts[DRAWN + name] for name in registry if name not in WITHOUT}
    if drawn:
        rare = sorted(drawn, key=drawn.__getitem__)[:12]
        lines.append(
            f"{sum(drawn.values())} operations of {sum(map(bool, drawn.values()))} of {len(drawn)} kinds; seldom: "
            + ", ".join(f"{name} {drawn[name]}" for name in rare)
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Run random programs in every way that has to give the same."
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="where the programs come from")
    parser.add_argument(
        "--first", type=int, default=0, help="the number of the first program of the seed"
    )
    parser.add_argument("--programs", type=int, help="how many, at most")
    parser.add_argument(
        "--backend", nargs=2, default=("interpreter", "pjrt:cpu"), metavar=("REFERENCE", "TESTED"),
        help="the two backends that are compared",
    )  # fmt: skip
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="OPERATION", help="programs of these alone"
    )
    parser.add_argument(
        "--dtypes", nargs="*", default=(), metavar="DTYPE", help="values of these alone"
    )
    parser.add_argument(
        "--shrink",
        type=float,
        default=60.0,
        help="seconds to shrink each kind of fault in, 0 for none",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="how many programs run at the same time; as many as there are processors",
    )
    given = parser.parse_args(arguments)
    setting = Setting(*given.backend)
    focus = Focus(tuple(given.only), tuple(given.dtypes))
    report = run_campaign(
        setting, given.seed, seconds=given.minutes * 60, programs=given.programs, focus=focus, first=given.first,
        jobs=given.jobs,
    )  # fmt: skip
    kinds: dict[tuple[str, str], list[Found]] = {}
    for found in report.found:
        kinds.setdefault(found.kind, []).append(found)
    for same in kinds.values():
        seeds = ", ".join(str(f.seed[-1]) for f in same[:8])
        print(f"=== {len(same)} times {same[0].check} {same[0].op}: programs {seeds}")
        if given.shrink:
            print(describe(setting, same[0], focus, given.shrink))
        else:
            print(same[0].text)
        sys.stdout.flush()
    print(summary(report))
    return 1 if report.found else 0
