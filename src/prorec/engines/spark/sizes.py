"""What a run will take, said before it starts."""

from __future__ import annotations

from dataclasses import dataclass


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

    def plan(self, rounds: int, *, learns: bool) -> str:
        """The passes and bytes of each round, for a person."""
        return "\n".join(
            [
                f"{self.rows:,} rows: {self.pairs:,} different interactions of {self.users:,} users with "
                f"{self.items:,} items, in {self.partitions} partitions of about "
                f"{-(-self.users // self.partitions):,} users.",
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
