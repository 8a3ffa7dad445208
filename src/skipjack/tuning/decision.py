"""What becomes of a confirmed search: the outcome, what a user should run, what enters the bank."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from skipjack.bank import Met
from skipjack.bank.evidence import is_library
from skipjack.execute.confirm import ALPHA, LOOKS, MIN_EFFECT, Confirmation
from skipjack.execute.statistics import Ratio, Timing, paired_ratio, summarize
from skipjack.reading import quoted
from skipjack.solvers import names
from skipjack.tuning.evaluator import LoadedCandidate
from skipjack.tuning.result import Outcome
from skipjack.tuning.study_run import SearchSummary, StudyRun

UNITY = Ratio(1.0, 1.0, 1.0)


def rivals_of(winner: LoadedCandidate, summary: SearchSummary) -> list[LoadedCandidate]:
    """What a winner has to beat: the default, the bank's config and the libraries."""
    others = [summary.default, summary.incumbent, *summary.vendors.values()]
    there = [r for r in others if r is not None and not r.cut_short]
    return list({r.kernel: r for r in there if r.kernel != winner.kernel}.values())


@dataclass(frozen=True, slots=True)
class Decision:
    """What a confirmation says: how a run ends, what to run from now on, and why."""

    run: StudyRun
    summary: SearchSummary
    winner: LoadedCandidate
    default: LoadedCandidate | None
    confirmation: Confirmation
    met: Met | None
    """How the bank's entry fared."""

    @property
    def vendors(self) -> dict[str, LoadedCandidate]:
        """The libraries whose times are known."""
        return {name: r for name, r in self.summary.vendors.items() if self._known(r)}

    def timing(self, loaded: LoadedCandidate) -> Timing:
        if loaded.kernel not in self.confirmation.blocks:
            return Timing(loaded.time_ns, loaded.spread, 1, 0)  # it was cut short
        return summarize(self.confirmation.blocks[loaded.kernel])

    def gain(self, chosen: LoadedCandidate, rival: LoadedCandidate) -> Ratio:
        """How much faster the chosen one is, from the blocks of the confirmation."""
        if rival.kernel == chosen.kernel:
            return UNITY
        blocks = self.confirmation.blocks
        if rival.kernel not in blocks:
            nan = float("nan")
            return Ratio(rival.time_ns / self.timing(chosen).time_ns, nan, nan)
        return paired_ratio(blocks[rival.kernel], blocks[chosen.kernel], 1.0 - ALPHA / len(LOOKS))

    def rival_ns(self, chosen: LoadedCandidate, rival: LoadedCandidate) -> float:
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
            name: loaded
            for name, loaded in self.summary.vendors.items()
            if self.confirmation.beaten_by(loaded.kernel)
        }
        if not beating:
            return ""
        fastest = min(beating, key=lambda name: (self.timing(beating[name]).time_ns, name))
        held = self.run.entry.solver if self.run.entry else ""
        if held not in beating or held == fastest:
            return fastest
        return fastest if self._beats(beating[fastest], beating[held]) else held

    def _beats(self, one: LoadedCandidate, other: LoadedCandidate) -> bool:
        """Whether one is faster than the other by at least the minimum effect."""
        gain = self.gain(one, other)
        return gain.supported and gain.low > 1.0 + MIN_EFFECT

    def outcome(self) -> Outcome:
        incumbent = self.summary.incumbent
        if library := self.faster_vendor():
            rival = self.summary.vendors[library]
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

    def unclear(self) -> list[LoadedCandidate]:
        """Those of whom noise hides whether the winner is faster."""
        rivals = rivals_of(self.winner, self.summary)
        return [r for r in rivals if self.confirmation.noisy(r.kernel) and not self._far(r)]

    def _far(self, library: LoadedCandidate) -> bool:
        """Whether a library is so slow that a disturbed call says enough, by the time on the core.

        The time on the core is known where all the work is done by one thread.
        """
        device = self.run.context.device
        if library not in self.vendors.values() or device.kind != "cpu" or device.units > 1:
            return False
        return (
            self.timing(library).time_ns
            > self.run.limits.far_library_ratio * self.timing(self.winner).time_ns
        )

    def chosen(self, outcome: Outcome) -> LoadedCandidate:
        """What a user should run: the winner, or what was used before where nothing beat it."""
        incumbent = self.summary.incumbent
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
            same = held and is_library(held) and held.solver == self.faster_vendor()
            return self.run.stale or not same
        return outcome is Outcome.BANKED or self.renews(outcome)

    def renews(self, outcome: Outcome) -> bool:
        """Whether the bank's stale config was confirmed, built and timed as it is today."""
        incumbent = self.summary.incumbent
        return (
            self.run.stale
            and outcome is Outcome.KEPT
            and incumbent is not None
            and self._timed(incumbent)
            and bool(incumbent.artifact_digest)
        )

    def kept(self, outcome: Outcome) -> LoadedCandidate:
        """What the bank may hold: the default also where the user asked for another solver."""
        if outcome is Outcome.RESERVED:
            return self.default_or(self.winner)
        return self.chosen(outcome)

    def _outside(self) -> bool:
        """Whether the default is of a solver that was not asked for."""
        outsider = self.run.outsider
        return self.default is not None and self.default.candidate == outsider

    def ties(self, best: LoadedCandidate) -> list[LoadedCandidate]:
        """Those of its solver that could not be told from it; the winner too if it is another."""
        everyone = (
            [self.winner, *self.summary.ties] if best is not self.winner else self.summary.ties
        )
        solver = best.candidate.solver
        return [t for t in everyone if t.kernel != best.kernel and t.candidate.solver == solver]

    def default_or(self, other: LoadedCandidate) -> LoadedCandidate:
        """The default, or another where it does not run."""
        return self.default if self.default and self._known(self.default) else other

    def _timed(self, loaded: LoadedCandidate | None) -> bool:
        return loaded is not None and loaded.kernel in self.confirmation.blocks

    def _known(self, loaded: LoadedCandidate) -> bool:
        return loaded.cut_short or self._timed(loaded)

    def reason(self, outcome: Outcome) -> str:
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

    def _called(self, rival: LoadedCandidate) -> str:
        """A library by its name; else what it is, for its solver may be the winner's own."""
        if rival in self.summary.vendors.values():
            return rival.solver
        return "the bank's config" if rival is self.summary.incumbent else "the default"
