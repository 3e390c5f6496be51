"""Real arrival series: requests per second in equal bins over whole days, scaled and drawn.

The files are `traces/servegen_rate_*.parquet` (columns `t_s`, `rate_rps`) of a folder that `--data`
names: rates derived from ServeGen (alibaba/ServeGen), which publishes production traffic by client.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from workload import DAY_S, Floats

if TYPE_CHECKING:
    from pathlib import Path

NO_DATA = 3
"""Exit status when what `--data` must hold is not there: nothing was measured."""


@dataclass(frozen=True, slots=True)
class Series:
    """Request rates.

    Attributes:
        name: of the file.
        rates: [day][bin] share of all days' requests; sums to the number of days.
    """

    name: str
    rates: Floats

    def times(self, day: int, *, volume: float, seed: int) -> Floats:
        """Draw a day's arrivals in order, seconds into the day; `volume` requests on a mean day."""
        rng = np.random.default_rng([seed, day])
        counts = rng.poisson(self.rates[day] * volume)
        bins = np.repeat(np.arange(counts.size), counts)
        return np.sort((bins + rng.random(bins.size)) * (DAY_S / counts.size))


def read_series(folder: Path) -> list[Series]:
    """Read all series of whole days that a folder holds."""
    return [_read(path) for path in sorted((folder / "traces").glob("servegen_rate_*.parquet"))]


def _read(path: Path) -> Series:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["t_s", "rate_rps"]).sort_by("t_s")
    moments, rates = (table.column(name).to_numpy() for name in ("t_s", "rate_rps"))
    bins = round(DAY_S / float(moments[1] - moments[0]))
    days = np.reshape(rates[: rates.size // bins * bins], (-1, bins))
    return Series(path.stem, days * (days.shape[0] / days.sum()))


def no_data(folder: Path | None, wanted: str) -> int:
    """Say what is missing and how to get it; return the exit status."""
    found = "no --data was given" if folder is None else f"{folder} does not hold it"
    print(
        f"this needs {wanted}: {found}.\n"
        "pass --data DIR, a folder with traces/servegen_rate_*.parquet (t_s, rate_rps: ServeGen's"
        " rates, github.com/alibaba/ServeGen, in equal bins), outcomes.parquet and models.csv"
        " (profiles/README.md says from which repositories and in which columns);"
        " pip install 'budgetroute[data]' reads them.",
        file=sys.stderr,
    )
    return NO_DATA
