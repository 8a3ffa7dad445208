"""The decision on a confirmed search: its outcome, what a user should run, what enters the bank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from skipjack.bank import BankEntry, ReplacementReason, is_library, number_or_none
from skipjack.core import settings_text
from skipjack.execute import (
    ALPHA,
    LOOKS,
    MIN_EFFECT,
    Confirmation,
    Ratio,
    Timing,
    paired_ratio,
    summarize,
)
from skipjack.reading import quoted
from skipjack.solvers import is_known
from skipjack.tuning.study.limits import LIMITS, Limits
from skipjack.tuning.study.loaded_candidate import LoadedCandidate
from skipjack.tuning.study.result import Speedup, TuneOutcome

UNITY = Ratio(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Contenders:
    """The winner of a search, and what it has to beat."""

    winner: LoadedCandidate
    default: LoadedCandidate | None = None
    """What would run without tuning."""
    incumbent: LoadedCandidate | None = None
    """The bank's config or library, if it runs now."""
    vendors: Mapping[str, LoadedCandidate] = field(default_factory=dict)
    ties: tuple[LoadedCandidate, ...] = ()
    untuned: LoadedCandidate | None = None
    """Plain loops, if a solver of loop nests was asked for by name."""
    held: BankEntry | None = None
    """The bank's entry."""
    stale: bool = False
    """Whether the bank's entry is of another compiler or driver than the present ones."""
    lost: ReplacementReason | None = None
    """Why the bank's entry does not run now, if that is known."""
    outside: bool = False
    """Whether the default is of a solver that was not asked for."""
    one_core: bool = False
    """Whether kernels run on one core, so that even a disturbed call has a CPU time."""
    pinned: bool = False
    """Whether settings are pinned: then a library, which has none, cannot be chosen."""

    @property
    def competitors(self) -> list[LoadedCandidate]:
        """The default, the bank's config and the libraries, but those that one call ruled out."""
        others = [self.default, self.incumbent, *self.vendors.values()]
        there = [r for r in others if r is not None and not r.cut_short]
        return list({r.kernel: r for r in there if r.kernel != self.winner.kernel}.values())


@dataclass(frozen=True, slots=True)
class Decision:
    """The conclusion from a confirmation: the outcome of a run, what to run, and why."""

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
    def met(self) -> ReplacementReason | None:
        """What happened to the bank's entry; None if there is none, or it did not run.

        It does not run if its solver is not known here, or the search was interrupted.
        """
        incumbent = self.contenders.incumbent
        if incumbent is None:
            return self.contenders.lost
        return ReplacementReason.SLOWER if self._known(incumbent) else ReplacementReason.FAILED

    @property
    def vendors(self) -> dict[str, LoadedCandidate]:
        """The libraries whose times are known."""
        return {name: r for name, r in self.contenders.vendors.items() if self._known(r)}

    def timing(self, loaded: LoadedCandidate) -> Timing:
        if loaded.kernel not in self.confirmation.blocks:
            return Timing(loaded.time_ns, loaded.spread, 1, 0)  # cut short: timed by one call
        return summarize(self.confirmation.blocks[loaded.kernel])

    def gain(self, chosen: LoadedCandidate, competitor: LoadedCandidate) -> Ratio:
        """How much faster the chosen one is, from the blocks of the confirmation."""
        if competitor.kernel == chosen.kernel:
            return UNITY
        blocks = self.confirmation.blocks
        if competitor.kernel not in blocks:
            nan = float("nan")
            return Ratio(competitor.time_ns / self.timing(chosen).time_ns, nan, nan)
        return paired_ratio(
            blocks[competitor.kernel], blocks[chosen.kernel], 1.0 - ALPHA / len(LOOKS)
        )

    def competitor_ns(self, chosen: LoadedCandidate, competitor: LoadedCandidate) -> float:
        """A competitor's time from the same pairs as the gain, so that the two agree."""
        if competitor.cut_short:
            return competitor.time_ns
        time_ns = self.timing(chosen).time_ns * self.gain(chosen, competitor).ratio
        return time_ns if isfinite(time_ns) else self.timing(competitor).time_ns

    def speedup(self, chosen: LoadedCandidate) -> Speedup:
        """How much faster the chosen one is than the default and each library."""
        gains = {name: self.gain(chosen, library) for name, library in self.vendors.items()}
        return Speedup(self.gain(chosen, self.default_or(chosen)), gains)

    def vendor_times_ns(self, chosen: LoadedCandidate) -> dict[str, float]:
        """The times of the libraries, from the same pairs as the gains."""
        return {name: self.competitor_ns(chosen, library) for name, library in self.vendors.items()}

    def default_ns(self, chosen: LoadedCandidate) -> float:
        """The default's time from the same pairs as the gain; the chosen one's if there is none."""
        return self.competitor_ns(chosen, self.default_or(chosen))

    def faster_vendor(self) -> str:
        """The library that is confirmed to be faster than the winner; empty if there is none.

        If there are several, it is the fastest, unless the bank's is one of them and not confirmed
        to be slower. Always empty if settings are pinned.
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

    def outcome(self) -> TuneOutcome:
        incumbent = self.contenders.incumbent
        if library := self.faster_vendor():
            competitor = self.contenders.vendors[library]
            stays = (
                incumbent is not None
                and self._timed(incumbent)
                and incumbent.kernel not in (self.winner.kernel, competitor.kernel)
                and not self._beats(competitor, incumbent)
            )
            if stays:
                return TuneOutcome.KEPT
            default = self.default
            if default is not None and self._timed(default) and self._beats(default, competitor):
                return TuneOutcome.RESERVED  # the named solver is slower than both
            return TuneOutcome.VENDOR
        found = self._beside_what_was_used()
        return TuneOutcome.RESERVED if found is TuneOutcome.KEPT and self._gives_way() else found

    def _beside_what_was_used(self) -> TuneOutcome:
        """The outcome if no library is faster than the winner."""
        incumbent = self.contenders.incumbent
        before = incumbent or self.default
        if incumbent is not None and incumbent.kernel == self.winner.kernel:
            return TuneOutcome.KEPT
        if self.noisy_competitors():
            return TuneOutcome.NOISY
        if before is not None and before.kernel == self.winner.kernel:
            return TuneOutcome.RESERVED
        if before is None or not self._timed(before):
            return TuneOutcome.BANKED  # what was used before does not run anymore
        beaten = self.default is not None and self.confirmation.beaten_by(self.default.kernel)
        if self.confirmation.confirmed(before.kernel) and not beaten:
            return TuneOutcome.BANKED
        return TuneOutcome.KEPT if incumbent is not None else TuneOutcome.RESERVED

    def _gives_way(self) -> bool:
        """Whether the default is confirmed to be at least as fast as the bank's config."""
        gain = self._gain_of_held()
        return gain is not None and gain.high <= 1.0

    def _overstated(self) -> bool:
        """Whether the gain over the default is confirmed to be smaller than the entry claims."""
        gain, held = self._gain_of_held(), self.contenders.held
        claimed = number_or_none(held.speedup.get("default", {}).get("low")) if held else None
        return gain is not None and claimed is not None and gain.high < claimed

    def _gain_of_held(self) -> Ratio | None:
        """The gain of the bank's config over the default; None without pairs of the two."""
        incumbent, default = self.contenders.incumbent, self.default
        if incumbent is None or default is None or incumbent.is_library:
            return None
        if not (self._timed(incumbent) and self._timed(default)):
            return None
        gain = self.gain(incumbent, default)
        return gain if gain.supported else None

    def noisy_competitors(self) -> list[LoadedCandidate]:
        """Competitors for which noise hides whether the winner is faster."""
        competitors = self.contenders.competitors
        return [r for r in competitors if self.confirmation.noisy(r.kernel) and not self._far(r)]

    def _far(self, library: LoadedCandidate) -> bool:
        """Whether a library is so slow that its CPU time in a disturbed call is enough.

        The CPU time is known if one thread does all the work.
        """
        if library not in self.vendors.values() or not self.contenders.one_core:
            return False
        far_ns = self.limits.far_ratio * self.timing(self.winner).time_ns
        return self.timing(library).time_ns > far_ns

    def chosen(self, outcome: TuneOutcome) -> LoadedCandidate:
        """What a user should run: the winner, or what was used before if nothing beat it."""
        incumbent = self.contenders.incumbent
        stays = outcome in (TuneOutcome.KEPT, TuneOutcome.NOISY)
        if stays and incumbent is not None and self._timed(incumbent):
            return self.winner if incumbent.is_library else incumbent
        if outcome in (TuneOutcome.RESERVED, TuneOutcome.NOISY):
            return self.winner if self.contenders.outside else self.default_or(self.winner)
        return self.winner

    def enters(self, outcome: TuneOutcome) -> bool:
        """Whether an entry goes to the bank.

        If the bank holds nothing that works, it gets an entry even without a confirmed gain, so
        that programs get the best config known.
        """
        if outcome is TuneOutcome.RESERVED:
            useless = self.met in (ReplacementReason.FAILED, ReplacementReason.OUTDATED)
            return self.contenders.held is None or useless or self._gives_way()
        if outcome is TuneOutcome.VENDOR:
            held = self.contenders.held
            same = held and is_library(held) and held.solver == self.faster_vendor()
            return self.contenders.stale or not same
        return outcome is TuneOutcome.BANKED or self.renews(outcome)

    def renews(self, outcome: TuneOutcome) -> bool:
        """Whether the bank's config gets new evidence because it was stale or claimed too much."""
        incumbent = self.contenders.incumbent
        if outcome is not TuneOutcome.KEPT or incumbent is None or incumbent.is_library:
            return False
        return self._timed(incumbent) and (self.contenders.stale or self._overstated())

    def kept(self, outcome: TuneOutcome) -> LoadedCandidate:
        """What the bank may hold; the default even if the user asked for another solver."""
        if outcome is TuneOutcome.RESERVED:
            return self.default_or(self.winner)
        return self.chosen(outcome)

    def ties(self, best: LoadedCandidate) -> list[LoadedCandidate]:
        """Ties of the best config that are of its solver, with a winner that was not chosen."""
        participants = [self.winner, *self.contenders.ties]
        return [t for t in participants if t.kernel != best.kernel and t.solver == best.solver]

    def default_or(self, other: LoadedCandidate) -> LoadedCandidate:
        """The default, or `other` if the default does not run."""
        return self.default if self.default and self._known(self.default) else other

    def _timed(self, loaded: LoadedCandidate | None) -> bool:
        return loaded is not None and loaded.kernel in self.confirmation.blocks

    def _known(self, loaded: LoadedCandidate) -> bool:
        return loaded.cut_short or self._timed(loaded)

    def reason(self, outcome: TuneOutcome) -> str:
        """The reason for the outcome; empty if the winner needs no explanation."""
        told = self._reason(outcome)
        library = self._fastest_vendor() if self.contenders.pinned else ""
        if library and outcome is not TuneOutcome.NOISY:
            beside = f"{library} is faster, but it has no such settings"
            return f"{told}; {beside}" if told else beside
        return told

    def _reason(self, outcome: TuneOutcome) -> str:
        if outcome is TuneOutcome.VENDOR:
            return f"{self.faster_vendor()} is faster"
        if outcome is TuneOutcome.NOISY:
            return self._noise()
        held = self.contenders.held
        if held is not None and not is_known(held.solver):
            return (
                f"the bank's entry is of solver {quoted(held.solver)}, which is not loaded, and "
                "was left as it is; to compare with it, name its plug-in with --plugin or "
                "SKIPJACK_PLUGINS"
            )
        if outcome is TuneOutcome.RESERVED:
            if self._gives_way():
                return "the default is no slower than the bank's config and replaced it"
            whose = ""
            if self.default and self.contenders.outside:
                default = self.default.candidate
                whose = f", {default.solver} with {settings_text(default.config)},"
            return f"no gain over the default{whose} is confirmed to exceed {MIN_EFFECT:.0%}"
        if outcome is not TuneOutcome.KEPT or held is None:
            return ""
        if self.met is None:
            return f"the bank's entry of {held.solver} has stronger evidence and could not be timed"
        if is_library(held):
            return f"nothing is confirmed to beat {held.solver}, which the bank holds"
        if self._overstated():
            return "nothing beat the bank's config, but its gain is smaller than it was"
        return "nothing beat the config that the bank holds"

    def _noise(self) -> str:
        competitor = self.noisy_competitors()[0]
        gain = self.confirmation.gains[competitor.kernel]
        if gain.vague:
            return (
                f"the gain over {self._called(competitor)} is anywhere between {gain.low:.3g} and "
                f"{gain.high:.3g}, so nothing was banked; close other programs, or give more "
                "--seconds"
            )
        return (
            f"other programs disturbed {gain.left_out} of {gain.pairs + gain.left_out} rounds "
            f"beside {self._called(competitor)}, so nothing was banked; close them, or give more "
            "--seconds"
        )

    def _called(self, competitor: LoadedCandidate) -> str:
        """The name of a library; of a config what it is, since its solver may be the winner's."""
        if competitor in self.contenders.vendors.values():
            return competitor.solver
        return "the bank's config" if competitor is self.contenders.incumbent else "the default"
