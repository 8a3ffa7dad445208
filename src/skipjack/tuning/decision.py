"""What becomes of a confirmed search: the outcome, what a user should run, what enters the bank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from skipjack.bank import BankEntry, Met
from skipjack.bank.entry_evidence import number_or_none
from skipjack.bank.evidence import is_library
from skipjack.core.config import settings_text
from skipjack.execute.confirm import ALPHA, LOOKS, MIN_EFFECT, Confirmation
from skipjack.execute.statistics import Ratio, Timing, paired_ratio, summarize
from skipjack.reading import quoted
from skipjack.solvers import is_known
from skipjack.tuning.limits import LIMITS, Limits
from skipjack.tuning.loaded_candidate import LoadedCandidate
from skipjack.tuning.result import Outcome, Speedup

UNITY = Ratio(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Contenders:
    """The winner of a search, and what it has to beat."""

    winner: LoadedCandidate
    default: LoadedCandidate | None = None
    """What would run without tuning."""
    incumbent: LoadedCandidate | None = None
    """What the bank held before, a library perhaps, if it runs now."""
    vendors: Mapping[str, LoadedCandidate] = field(default_factory=dict)
    ties: tuple[LoadedCandidate, ...] = ()
    untuned: LoadedCandidate | None = None
    """Plain loops, where a solver of loop nests was asked for by name."""
    held: BankEntry | None = None
    """What the bank holds."""
    stale: bool = False
    """Whether that is of another compiler or driver than today's."""
    lost: Met | None = None
    """Why the bank's entry does not run now, if that is known."""
    outside: bool = False
    """Whether the default is of a solver that was not asked for."""
    one_core: bool = False
    """Whether times are those on one core, which a disturbed call tells too."""
    pinned: bool = False
    """Whether settings are pinned: a library has none, and is no answer then."""

    @property
    def rivals(self) -> list[LoadedCandidate]:
        """The default, the bank's config and the libraries, but those that one call ruled out."""
        others = [self.default, self.incumbent, *self.vendors.values()]
        there = [r for r in others if r is not None and not r.cut_short]
        return list({r.kernel: r for r in there if r.kernel != self.winner.kernel}.values())


@dataclass(frozen=True, slots=True)
class Decision:
    """What a confirmation says: how a run ends, what to run from now on, and why."""

    contenders: Contenders
    confirmation: Confirmation
    limits: Limits = LIMITS

    @property
    def winner(self) -> LoadedCandidate:
        return self.contenders.winner

    @property
    def default(self) -> LoadedCandidate | None:
        return self.contenders.default

    @property
    def met(self) -> Met | None:
        """How the bank's entry fared beside the winner; None if there is none, or it did not run.

        It does not where its solver is not known here, or the search was interrupted.
        """
        incumbent = self.contenders.incumbent
        if incumbent is None:
            return self.contenders.lost
        return Met.SLOWER if self._known(incumbent) else Met.FAILED

    @property
    def vendors(self) -> dict[str, LoadedCandidate]:
        """The libraries whose times are known."""
        return {name: r for name, r in self.contenders.vendors.items() if self._known(r)}

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

    def speedup(self, chosen: LoadedCandidate) -> Speedup:
        """How much faster the chosen one is than the default and each library."""
        gains = {name: self.gain(chosen, library) for name, library in self.vendors.items()}
        return Speedup(self.gain(chosen, self.default_or(chosen)), gains)

    def vendor_times_ns(self, chosen: LoadedCandidate) -> dict[str, float]:
        """Those of the libraries, beside the chosen one's."""
        return {name: self.rival_ns(chosen, library) for name, library in self.vendors.items()}

    def default_ns(self, chosen: LoadedCandidate) -> float:
        """The default's, beside the chosen one's; its own where there is no default."""
        return self.rival_ns(chosen, self.default_or(chosen))

    def faster_vendor(self) -> str:
        """A vendor's library that is confirmed faster than the winner, or nothing.

        The fastest of them, unless the bank's is one of them and not confirmed to be slower. None
        where settings are pinned.
        """
        return "" if self.contenders.pinned else self._fastest_vendor()

    def _fastest_vendor(self) -> str:
        beating = {
            name: loaded
            for name, loaded in self.contenders.vendors.items()
            if self.confirmation.beaten_by(loaded.kernel)
        }
        if not beating:
            return ""
        fastest = min(beating, key=lambda name: (self.timing(beating[name]).time_ns, name))
        held = self.contenders.held.solver if self.contenders.held else ""
        if held not in beating or held == fastest:
            return fastest
        return fastest if self._beats(beating[fastest], beating[held]) else held

    def _beats(self, one: LoadedCandidate, other: LoadedCandidate) -> bool:
        """Whether one is faster than the other by at least the minimum effect."""
        gain = self.gain(one, other)
        return gain.supported and gain.low > 1.0 + MIN_EFFECT

    def outcome(self) -> Outcome:
        incumbent = self.contenders.incumbent
        if library := self.faster_vendor():
            rival = self.contenders.vendors[library]
            stays = (
                incumbent is not None
                and self._timed(incumbent)
                and incumbent.kernel not in (self.winner.kernel, rival.kernel)
                and not self._beats(rival, incumbent)
            )
            if stays:
                return Outcome.KEPT
            default = self.default
            if default is not None and self._timed(default) and self._beats(default, rival):
                return Outcome.RESERVED  # a solver was named that loses to both
            return Outcome.VENDOR
        found = self._beside_what_was_used()
        return Outcome.RESERVED if found is Outcome.KEPT and self._gives_way() else found

    def _beside_what_was_used(self) -> Outcome:
        """The outcome where no library is faster than the winner."""
        incumbent = self.contenders.incumbent
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

    def _gives_way(self) -> bool:
        """Whether the default is confirmed to be no slower than the config that the bank holds."""
        gain = self._gain_of_held()
        return gain is not None and gain.high <= 1.0

    def _overstated(self) -> bool:
        """Whether the gain over the default that the bank's entry claims is confirmed smaller."""
        gain, held = self._gain_of_held(), self.contenders.held
        claimed = number_or_none(held.speedup.get("default", {}).get("low")) if held else None
        return gain is not None and claimed is not None and gain.high < claimed

    def _gain_of_held(self) -> Ratio | None:
        """Of the bank's config over the default; None where there are no pairs of the two."""
        incumbent, default = self.contenders.incumbent, self.default
        if incumbent is None or default is None or incumbent.is_library:
            return None
        if not (self._timed(incumbent) and self._timed(default)):
            return None
        gain = self.gain(incumbent, default)
        return gain if gain.supported else None

    def unclear(self) -> list[LoadedCandidate]:
        """Those of whom noise hides whether the winner is faster."""
        rivals = self.contenders.rivals
        return [r for r in rivals if self.confirmation.noisy(r.kernel) and not self._far(r)]

    def _far(self, library: LoadedCandidate) -> bool:
        """Whether a library is so slow that a disturbed call says enough, by the time on the core.

        The time on the core is known where all the work is done by one thread.
        """
        if library not in self.vendors.values() or not self.contenders.one_core:
            return False
        far_ns = self.limits.far_ratio * self.timing(self.winner).time_ns
        return self.timing(library).time_ns > far_ns

    def chosen(self, outcome: Outcome) -> LoadedCandidate:
        """What a user should run: the winner, or what was used before where nothing beat it."""
        incumbent = self.contenders.incumbent
        stays = outcome in (Outcome.KEPT, Outcome.NOISY)
        if stays and incumbent is not None and self._timed(incumbent):
            return self.winner if incumbent.is_library else incumbent
        if outcome in (Outcome.RESERVED, Outcome.NOISY):
            return self.winner if self.contenders.outside else self.default_or(self.winner)
        return self.winner

    def enters(self, outcome: Outcome) -> bool:
        """Whether the bank gets an entry of it.

        Where the bank holds nothing that works, programs that ask should get what is best as far
        as anybody knows.
        """
        if outcome is Outcome.RESERVED:
            useless = self.met in (Met.FAILED, Met.OUTDATED)
            return self.contenders.held is None or useless or self._gives_way()
        if outcome is Outcome.VENDOR:
            held = self.contenders.held
            same = held and is_library(held) and held.solver == self.faster_vendor()
            return self.contenders.stale or not same
        return outcome is Outcome.BANKED or self.renews(outcome)

    def renews(self, outcome: Outcome) -> bool:
        """Whether the bank's config stays with new evidence: it was stale, or claimed too much."""
        incumbent = self.contenders.incumbent
        if outcome is not Outcome.KEPT or incumbent is None or incumbent.is_library:
            return False
        return self._timed(incumbent) and (self.contenders.stale or self._overstated())

    def kept(self, outcome: Outcome) -> LoadedCandidate:
        """What the bank may hold: the default also where the user asked for another solver."""
        if outcome is Outcome.RESERVED:
            return self.default_or(self.winner)
        return self.chosen(outcome)

    def ties(self, best: LoadedCandidate) -> list[LoadedCandidate]:
        """Those of its solver that could not be told from it; the winner too if it is another."""
        everyone = [self.winner, *self.contenders.ties]
        return [t for t in everyone if t.kernel != best.kernel and t.solver == best.solver]

    def default_or(self, other: LoadedCandidate) -> LoadedCandidate:
        """The default, or another where it does not run."""
        return self.default if self.default and self._known(self.default) else other

    def _timed(self, loaded: LoadedCandidate | None) -> bool:
        return loaded is not None and loaded.kernel in self.confirmation.blocks

    def _known(self, loaded: LoadedCandidate) -> bool:
        return loaded.cut_short or self._timed(loaded)

    def reason(self, outcome: Outcome) -> str:
        """Why it ended so; empty where the winner says enough."""
        told = self._reason(outcome)
        library = self._fastest_vendor() if self.contenders.pinned else ""
        if library and outcome is not Outcome.NOISY:
            beside = f"{library} is faster, which has no such settings"
            return f"{told}; {beside}" if told else beside
        return told

    def _reason(self, outcome: Outcome) -> str:
        if outcome is Outcome.VENDOR:
            return f"{self.faster_vendor()} is faster"
        if outcome is Outcome.NOISY:
            return self._noise()
        held = self.contenders.held
        if held is not None and not is_known(held.solver):
            return (
                f"the bank's entry is of solver {quoted(held.solver)}, which is not loaded, and "
                "was left as it is; to compare with it, name its plug-in with --plugin or "
                "SKIPJACK_PLUGINS"
            )
        if outcome is Outcome.RESERVED:
            if self._gives_way():
                return "the default is no slower than the bank's config, which gave way to it"
            whose = ""
            if self.default and self.contenders.outside:
                default = self.default.candidate
                whose = f", {default.solver} with {settings_text(default.config)},"
            return f"no gain over the default{whose} is confirmed to exceed {MIN_EFFECT:.0%}"
        if outcome is not Outcome.KEPT or held is None:
            return ""
        if self.met is None:
            return f"the bank's entry of {held.solver} has stronger evidence and could not be timed"
        if is_library(held):
            return f"nothing is confirmed to beat {held.solver}, which the bank holds"
        if self._overstated():
            return "nothing beat the bank's config, but its gain is smaller than it was"
        return "nothing beat the config that the bank holds"

    def _noise(self) -> str:
        rival = self.unclear()[0]
        gain = self.confirmation.gains[rival.kernel]
        if gain.vague:
            return (
                f"the gain over {self._called(rival)} is anywhere between {gain.low:.3g} and "
                f"{gain.high:.3g}, so nothing was banked; close other programs, or give more "
                "--seconds"
            )
        return (
            f"other programs disturbed {gain.left_out} of {gain.pairs + gain.left_out} rounds "
            f"beside {self._called(rival)}, so nothing was banked; close them, or give more "
            "--seconds"
        )

    def _called(self, rival: LoadedCandidate) -> str:
        """A library by its name; else what it is, for its solver may be the winner's own."""
        if rival in self.contenders.vendors.values():
            return rival.solver
        return "the bank's config" if rival is self.contenders.incumbent else "the default"
