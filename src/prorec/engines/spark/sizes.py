"""What a run will take, said before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prorec.engines.spark.cross_fit import CrossFit


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    rows: int
    pairs: int
    """Of a user and an item, each counted once."""
    users: int
    items: int
    rank: int
    partitions: int

    @property
    def products(self) -> float:
        """Multiplications of two passes over all pairs of a user and an item."""
        return 2.0 * self.users * self.items * self.rank

    @property
    def shipped(self) -> int:
        """Bytes of item factors that every executor gets, in each round."""
        return 4 * self.items * self.rank + 8 * self.items

    @property
    def shuffled(self) -> int:
        """Bytes of user factors and clicks that change their place in each round, before compression."""
        return 2 * self.users * (4 * self.rank + 12) + 12 * self.pairs

    def plan(self, rounds: int, cross_fit: CrossFit | None, *, learns: bool) -> str:
        """The passes and bytes, for a person."""
        before = []
        if cross_fit is not None:
            ranks, pairs = [model.rank for model in cross_fit.base_models], self.users * self.items
            before = [
                f"Cross-fitting, {cross_fit.folds} folds, each:",
                f"  ALS, rank {' and '.join(map(str, ranks))}",
                f"  {len(ranks)} passes over {pairs:,} pairs, {1.0 * pairs * sum(ranks):.2g} multiplications",
                f"  {_bytes(4 * self.items * sum(ranks))} of items to every executor",
            ]
        return "\n".join(
            [
                f"{self.rows:,} rows: {self.pairs:,} different interactions of {self.users:,} users with "
                f"{self.items:,} items, in {self.partitions} partitions of about "
                f"{-(-self.users // self.partitions):,} users.",
                *before,
                f"Each of at most {rounds} rounds:",
                "  " + (f"ALS, rank {self.rank}" if learns else "factors as they were given"),
                f"  2 passes over {self.users * self.items:,} pairs, {self.products:.2g} multiplications",
                f"  {_bytes(self.shipped)} of items to every executor, {_bytes(8 * self.items * self.partitions)} of "
                f"sums up the tree, {_bytes(16 * self.items)} to the driver",
                f"  about {_bytes(self.shuffled)} shuffled",
            ]
        )


def _bytes(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:,.0f} {unit}"
        number /= 1000
    raise AssertionError
