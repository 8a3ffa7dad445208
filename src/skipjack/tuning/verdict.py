"""The verdict on a search: confirmed on fresh samples, written to the ledger, kept in the bank."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from math import isfinite

from skipjack.bank import BankEntry, Met, replacing, stronger
from skipjack.bank.evidence import BASELINE, REPLACED, device_evidence, is_library
from skipjack.core.config import Config
from skipjack.core.device import Peaks
from skipjack.execute.confirm import ALPHA, LOOKS, MIN_EFFECT, Confirmation, confirm
from skipjack.execute.statistics import Ratio, Timing, paired_ratio, summarize
from skipjack.ledger import OUTCOME, VerdictRecord
from skipjack.operations import bytes_moved, get, outputs
from skipjack.reading import quoted
from skipjack.solvers import names
from skipjack.storage import timestamp, utc_now
from skipjack.tuning.arm import Arm
from skipjack.tuning.beside import Beside
from skipjack.tuning.result import KernelCode, Outcome, SolverScore, Speedup, TuneResult
from skipjack.tuning.runner import Runner
from skipjack.tuning.study_run import Standing, StudyRun

log = logging.getLogger(__name__)

UNITY = Ratio(1.0, 1.0, 1.0)
_FAR = 2.0
"""A library that takes so many times as long is slower, however noisy its time is."""


def conclude(run: StudyRun, standing: Standing) -> TuneResult:
    """Confirm the winner against the incumbent and the vendors, and write the outcome down."""
    return judge(run, standing, confirm_winner(run, standing))


def confirm_winner(run: StudyRun, standing: Standing) -> Confirmation:
    """Time the winner beside what it has to beat; nothing where there is none, or it fails now."""
    winner = standing.winner
    if winner is None:
        return Confirmation({}, {})
    rivals = _rivals(winner, standing)
    with run.shop.tracer.span("confirm", "run"):
        confirmation = confirm(
            run.shop.session,
            winner.kernel,
            [rival.kernel for rival in rivals],
            run.shop.protocol.confirm_blocks,
            run.limit.over,
            run.shop.clock,
        )
    standing.contest.record_blocks(confirmation.blocks, [winner, *rivals])
    return confirmation


def judge(
    run: StudyRun, standing: Standing, confirmation: Confirmation, *, keep: bool = True
) -> TuneResult:
    """The outcome, written to the ledger and the bank if it is to be kept."""
    winner = standing.winner
    if winner is None or winner.kernel not in confirmation.blocks:
        return _failed(run, standing)
    met = run.met(standing, confirmation)
    judged = _Judged(run, standing, winner, standing.default, confirmation, met)
    result = judged.result(judged.outcome(), run.shop.peaks())
    if judged.is_outdone(result):
        result = judged.result(Outcome.KEPT, run.shop.peaks())
    best = judged.chosen(result.status)
    if best.artifact_digest:
        run.shop.remember(best)
    if keep:
        _write(run, result, judged)
    return result


def _rivals(winner: Runner, standing: Standing) -> list[Runner]:
    others = [standing.default, standing.incumbent, *standing.vendors.values()]
    there = [r for r in others if r is not None and not r.cut_short]
    return list({r.kernel: r for r in there if r.kernel != winner.kernel}.values())


@dataclass(frozen=True, slots=True)
class _Judged:
    run: StudyRun
    standing: Standing
    winner: Runner
    default: Runner | None
    confirmation: Confirmation
    met: Met | None
    """How the bank's entry fared."""

    @property
    def vendors(self) -> dict[str, Runner]:
        """The libraries whose times are known."""
        return {name: r for name, r in self.standing.vendors.items() if self._known(r)}

    def timing(self, runner: Runner) -> Timing:
        if runner.kernel not in self.confirmation.blocks:
            return Timing(runner.time_ns, runner.spread, 1, 0)  # it was cut short
        return summarize(self.confirmation.blocks[runner.kernel])

    def gain(self, chosen: Runner, rival: Runner) -> Ratio:
        """How much faster the chosen one is, from the blocks of the confirmation."""
        if rival.kernel == chosen.kernel:
            return UNITY
        blocks = self.confirmation.blocks
        if rival.kernel not in blocks:
            nan = float("nan")
            return Ratio(rival.time_ns / self.timing(chosen).time_ns, nan, nan)
        return paired_ratio(blocks[rival.kernel], blocks[chosen.kernel], 1.0 - ALPHA / len(LOOKS))

    def rival_ns(self, chosen: Runner, rival: Runner) -> float:
        """Its time beside the chosen one's: the same pairs as the gain, so the two agree."""
        if rival.cut_short:
            return rival.time_ns
        time_ns = self.timing(chosen).time_ns * self.gain(chosen, rival).ratio
        return time_ns if isfinite(time_ns) else self.timing(rival).time_ns

    def faster_vendor(self) -> str:
        """A vendor's library that is confirmed faster than the winner, or nothing.

        The fastest of them, unless the bank's is one of them and not confirmed to be slower.
        """
        beating = {
            name: runner
            for name, runner in self.standing.vendors.items()
            if self.confirmation.beaten_by(runner.kernel)
        }
        if not beating:
            return ""
        fastest = min(beating, key=lambda name: (self.timing(beating[name]).time_ns, name))
        held = self.run.entry.solver if self.run.entry else ""
        if held not in beating or held == fastest:
            return fastest
        return fastest if self._beats(beating[fastest], beating[held]) else held

    def _beats(self, one: Runner, other: Runner) -> bool:
        """Whether one is faster than the other by at least the minimum effect."""
        gain = self.gain(one, other)
        return gain.supported and gain.low > 1.0 + MIN_EFFECT

    def outcome(self) -> Outcome:
        incumbent = self.standing.incumbent
        if library := self.faster_vendor():
            rival = self.standing.vendors[library]
            stays = (
                incumbent is not None
                and self._timed(incumbent)
                and incumbent.kernel not in (self.winner.kernel, rival.kernel)
                and not self._beats(rival, incumbent)
            )
            return Outcome.KEPT if stays else Outcome.VENDOR
        before = incumbent or self.default
        if incumbent is not None and incumbent.kernel == self.winner.kernel:
            return Outcome.KEPT
        if self.unclear():
            return Outcome.NOISY
        if before is not None and before.kernel == self.winner.kernel:
            return Outcome.RESERVED
        if before is None or not self._timed(before):
            return Outcome.BANKED  # what was used before does not run any more
        beaten = self.default is not None and self.confirmation.beaten_by(self.default.kernel)
        if self.confirmation.confirmed(before.kernel) and not beaten:
            return Outcome.BANKED
        return Outcome.KEPT if incumbent is not None else Outcome.RESERVED

    def unclear(self) -> list[Runner]:
        """Those of whom noise hides whether the winner is faster."""
        rivals = _rivals(self.winner, self.standing)
        return [r for r in rivals if self.confirmation.noisy(r.kernel) and not self._far(r)]

    def _far(self, library: Runner) -> bool:
        """Whether a library is so slow that a disturbed call says enough, by the time on the core.

        The time on the core is known where all the work is done by one thread.
        """
        device = self.run.shop.device
        if library not in self.vendors.values() or device.kind != "cpu" or device.units > 1:
            return False
        return self.timing(library).time_ns > _FAR * self.timing(self.winner).time_ns

    def chosen(self, outcome: Outcome) -> Runner:
        """What a user should run: the winner, or what was used before where nothing beat it."""
        incumbent = self.standing.incumbent
        stays = outcome in (Outcome.KEPT, Outcome.NOISY)
        if stays and incumbent is not None and self._timed(incumbent):
            return incumbent if incumbent.artifact_digest else self.winner
        if outcome in (Outcome.RESERVED, Outcome.NOISY):
            return self.winner if self._outside() else self.default_or(self.winner)
        return self.winner

    def enters(self, outcome: Outcome) -> bool:
        """Whether the bank gets an entry of it.

        Where the bank holds nothing that works, programs that ask should get what is best as far
        as anybody knows.
        """
        if outcome is Outcome.RESERVED:
            return self.run.entry is None or self.met in (Met.FAILED, Met.OUTDATED)
        if outcome is Outcome.VENDOR:
            held = self.run.entry
            return not (held and is_library(held) and held.solver == self.faster_vendor())
        return outcome is Outcome.BANKED

    def is_outdone(self, result: TuneResult) -> bool:
        """Whether the bank's entry, which did not run here, has stronger evidence.

        One of a solver that is not loaded here stays in any case: nobody has met it.
        """
        held = self.run.entry
        if held is None or self.met is not None or not self.enters(result.status):
            return False
        if held.solver not in names():
            return True
        return stronger(held, _entry(self.run, result, self, "")) is held

    def kept(self, outcome: Outcome) -> Runner:
        """What the bank may hold: the default also where the user asked for another solver."""
        if outcome is Outcome.RESERVED:
            return self.default_or(self.winner)
        return self.chosen(outcome)

    def _outside(self) -> bool:
        """Whether the default is of a solver that was not asked for."""
        outsider = self.run.outsider
        return self.default is not None and self.default.candidate == outsider

    def result(self, outcome: Outcome, peaks: Peaks) -> TuneResult:
        run, problem = self.run, self.run.problem
        operation = get(problem.operation)
        best = self.chosen(outcome)
        default = self.default_or(best)
        timing = self.timing(best)
        times = {name: self.rival_ns(best, r) for name, r in self.vendors.items()}
        beside = Beside(run, best)
        untuned = beside.untuned(self.standing.untuned)
        speedup = Speedup(
            self.gain(best, default),
            {name: self.gain(best, r) for name, r in self.vendors.items()},
            untuned,
            beside.as_called(self.vendors),
        )
        now = run.shop.clock()
        return TuneResult(
            problem=problem,
            device=run.shop.device.name,
            solver=best.candidate.solver,
            status=outcome,
            best=best.candidate.config,
            trials=self.standing.trials,
            speedup=speedup,
            time_ns=timing.time_ns,
            spread=timing.spread,
            default_ns=self.rival_ns(best, default),
            vendor_ns=times.get(speedup.vendor_name),
            vendor_times_ns=times,
            builds=self.standing.contest.builds,
            runs=self.standing.contest.runs,
            seconds=now - run.limit.started,
            overhead=run.shop.tracer.overhead(run.limit.started, now),
            flops=operation.flops(problem),
            bytes_moved=bytes_moved(problem),
            peak_share=_share(run, timing.time_ns, peaks),
            operation_class=operation.operation_class,
            ties=tuple(tie.candidate.config for tie in self._ties(best)),
            reason=self._reason(outcome),
            interrupted=self.standing.interrupted,
            code=_code(run, best),
            solvers=tuple(_score(arm) for arm in run.arms),
            untuned_ns=timing.time_ns * untuned.ratio if untuned else None,
        )

    def _ties(self, best: Runner) -> list[Runner]:
        """Those of its solver that could not be told from it; the winner too if it is another."""
        everyone = (
            [self.winner, *self.standing.ties] if best is not self.winner else self.standing.ties
        )
        solver = best.candidate.solver
        return [t for t in everyone if t.kernel != best.kernel and t.candidate.solver == solver]

    def default_or(self, other: Runner) -> Runner:
        """The default, or another where it does not run."""
        return self.default if self.default and self._known(self.default) else other

    def _timed(self, runner: Runner | None) -> bool:
        return runner is not None and runner.kernel in self.confirmation.blocks

    def _known(self, runner: Runner) -> bool:
        return runner.cut_short or self._timed(runner)

    def _reason(self, outcome: Outcome) -> str:
        if outcome is Outcome.VENDOR:
            return f"{self.faster_vendor()} is faster"
        if outcome is Outcome.NOISY:
            return self._noise()
        held = self.run.entry
        if held is not None and held.solver not in names():
            return (
                f"the bank's entry is of solver {quoted(held.solver)}, which is not loaded, and "
                "was left as it is; to compare with it, name its plug-in with --plugin or "
                "SKIPJACK_PLUGINS"
            )
        if outcome is Outcome.RESERVED:
            whose = ""
            if self.default and self._outside():
                default = self.default.candidate
                whose = f", {default.solver} with {default.config},"
            return f"no gain over the default{whose} is confirmed to exceed {MIN_EFFECT:.0%}"
        if outcome is not Outcome.KEPT or held is None:
            return ""
        if self.met is None:
            return f"the bank's entry of {held.solver} has stronger evidence and could not be timed"
        if is_library(held):
            return f"nothing is confirmed to beat {held.solver}, which the bank holds"
        return "nothing beat the config that the bank holds"

    def _noise(self) -> str:
        rival = self.unclear()[0]
        gain = self.confirmation.gains[rival.kernel]
        return (
            f"other programs disturbed {gain.left_out} of {gain.pairs + gain.left_out} rounds "
            f"beside {self._called(rival)}, so nothing was banked; close them, or give more "
            "--seconds"
        )

    def _called(self, rival: Runner) -> str:
        """A library by its name; else what it is, for its solver may be the winner's own."""
        if rival in self.standing.vendors.values():
            return rival.solver
        return "the bank's config" if rival is self.standing.incumbent else "the default"


def _score(arm: Arm) -> SolverScore:
    return SolverScore(arm.name, len(arm.trials), arm.best if arm.best < float("inf") else None)


def _share(run: StudyRun, time_ns: float, peaks: Peaks) -> float | None:
    problem = run.problem
    operation = get(problem.operation)
    if operation.operation_class == "cube":
        peak = peaks.flops(problem.dtype) * run.shop.device.units
        return operation.flops(problem) / time_ns * 1e9 / peak if peak else None
    moved = bytes_moved(problem)
    if run.shop.device.kind != "cpu":
        peak = peaks.bandwidth(sys.maxsize)  # arrays come from memory, however small they are
        return moved / time_ns * 1e9 / peak if peak else None
    if run.shop.device.units > 1:
        return None  # bandwidth was measured with one thread; cores share some of it
    read = sum(tensor.size for tensor in operation.inputs(problem))
    written = sum(tensor.size for tensor in outputs(problem))
    peak = peaks.bandwidth(moved, read / (read + written))
    return moved / time_ns * 1e9 / peak if peak else None


def _code(run: StudyRun, runner: Runner) -> KernelCode:
    data = run.shop.artifacts.get(runner.artifact_digest)
    return KernelCode(data, runner.artifact_digest, runner.symbol, runner.abi, runner.slots)


def _failed(run: StudyRun, standing: Standing) -> TuneResult:
    problem = run.problem
    operation = get(problem.operation)
    reasons = [trial.reason for trial in standing.trials if trial.reason]
    why = f"no config ran; the last one said: {reasons[-1]}" if reasons else "no config ran in time"
    now = run.shop.clock()
    nan = float("nan")
    return TuneResult(
        problem=problem,
        device=run.shop.device.name,
        solver=run.arms[0].name,
        status=Outcome.FAILED,
        best=Config(),
        trials=standing.trials,
        speedup=Speedup(Ratio(nan, nan, nan)),
        time_ns=nan,
        spread=nan,
        default_ns=nan,
        vendor_ns=None,
        vendor_times_ns={},
        builds=standing.contest.builds,
        runs=standing.contest.runs,
        seconds=now - run.limit.started,
        overhead=run.shop.tracer.overhead(run.limit.started, now),
        flops=operation.flops(problem),
        bytes_moved=bytes_moved(problem),
        peak_share=None,
        operation_class=operation.operation_class,
        reason=why,
        interrupted=standing.interrupted,
    )


def _write(run: StudyRun, result: TuneResult, judged: _Judged) -> None:
    shop = run.shop
    now = timestamp(utc_now())
    enters = judged.enters(result.status)
    entry = _entry(run, result, judged, now)
    with shop.tracer.span("write the verdict", "ledger"):
        shop.ledger.add_verdict(
            VerdictRecord(
                run.study_of(entry.solver).id,
                run.problem.key,
                shop.device.class_key,
                entry.solver,
                Config(dict(entry.config)),
                "banked" if enters else str(result.status),
                entry.record(),
                now,
            )
        )
        if enters and shop.bank.put(entry).kept:
            log.warning(
                "meanwhile the bank was given an entry of %s with stronger evidence, which stays",
                run.problem.key,
            )


def _entry(run: StudyRun, result: TuneResult, judged: _Judged, now: str) -> BankEntry:
    """Of what the bank may hold; a library's has no config."""
    shop = run.shop
    vendor = judged.faster_vendor() if result.status is Outcome.VENDOR else ""
    best = judged.kept(result.status)
    runner = judged.standing.vendors[vendor] if vendor else best
    own = best is judged.chosen(result.status)
    timing = judged.timing(best)
    replaced = {}
    if run.entry and judged.met and judged.enters(result.status):
        replaced = {REPLACED: replacing(run.entry, judged.met)}
    default = judged.default_or(best)
    gains = Speedup(
        judged.gain(best, default),
        {name: judged.gain(best, r) for name, r in judged.vendors.items()},
        as_called=result.speedup.as_called if own and not vendor else None,
    )
    times = {name: judged.rival_ns(best, r) for name, r in judged.vendors.items()}
    speedup = {"default": gains.default.to_json()}
    if gains.vendor:
        speedup["vendor"] = gains.vendor.to_json()
    return BankEntry(
        problem=run.problem.key,
        device=shop.device.class_key,
        device_name=shop.device.name,
        solver=runner.solver,
        solver_version=runner.version,
        config={} if vendor else dict(best.candidate.config),
        time_ns=times[vendor] if vendor else timing.time_ns,
        default_ns=judged.rival_ns(best, default),
        vendor_ns=times.get(gains.vendor_name),
        vendor=gains.vendor_name,
        speedup=speedup,
        evidence={
            "alpha": ALPHA,
            "min_effect": MIN_EFFECT,
            "samples": timing.samples,
            "set_aside": timing.set_aside,
            "spread": round(timing.spread, 6),
            "protocol": shop.protocol.key,
            OUTCOME: str(result.status),
            **device_evidence(shop.device),
            "study": run.study_of(result.solver).id,
            "artifact": "" if vendor else best.artifact_digest,
            "ties": [dict(config) for config in result.ties] if own else [],
            BASELINE: {"name": gains.baseline_name, **gains.baseline.to_json()},
            "as_called": gains.as_called.to_json() if gains.as_called else None,
            **replaced,
        },
        created=now,
    )
