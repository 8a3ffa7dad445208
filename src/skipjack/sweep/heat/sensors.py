"""Temperature, power and throttling, as far as this machine can tell them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from skipjack.sweep.heat.gpu_sensors import AmdSmi, Nvidia, RocmSmi
from skipjack.sweep.heat.processor_sensors import Processor
from skipjack.sweep.heat.reading import Reading, Source

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sensors:
    """The sources that answered when they were looked for. Reading never raises."""

    sources: tuple[Source, ...] = ()

    @classmethod
    def detect(cls, sys_root: Path = Path("/sys")) -> Sensors:
        """Accelerators if there are any, else the processor: what gets hot is what is used."""
        accelerators = (Nvidia(), AmdSmi(), RocmSmi())
        for source in accelerators:
            if source.read():
                return cls((source,))
        processor = Processor(sys_root)
        return cls((processor,)) if processor.read() else cls()

    @property
    def available(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.sources)

    @property
    def name(self) -> str:
        """``nvidia-smi``, or ``not available``."""
        return ", ".join(source.name for source in self.sources) or "not available"

    def read(self) -> list[Reading]:
        """All devices of all sources; a source that raises has no devices this time."""
        readings: list[Reading] = []
        for source in self.sources:
            try:
                readings += source.read()
            except Exception:
                _log.debug("%s could not be read", source.name, exc_info=True)
        return readings
