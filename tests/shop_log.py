"""A shop's log of orders as such logs come: messy, and with accounts in it that are no customers.

`python -m tests.shop_log orders.csv` writes it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from prorec import make_cinema

HEADER = "OrderID;Customer;SKU;OrderedAt;Quantity;Weight"
_START = datetime(2024, 1, 1, 8)
_DAYS = 180


@dataclass(frozen=True)
class ShopLog:
    """What is in the file."""

    n_rows: int
    n_missing_customers: int
    n_bad_dates: int
    bots: tuple[str, ...]
    test_accounts: tuple[str, ...]

    @property
    def n_bad_rows(self) -> int:
        return self.n_missing_customers + self.n_bad_dates


def write_shop_log(path: Path, n_customers: int = 400, n_products: int = 250, seed: int = 0) -> ShopLog:
    """Write a log of orders.

    Customers buy as the members of the cinema watch films. Two bots order the whole catalogue, one in its order and one
    at regular times; three test accounts try the same dozen products within minutes. One order in fifty has no
    customer, some dates are no dates, about half of the times end in Z, and one line in ten repeats an earlier one. The
    weight is that of the parcel in kilograms.
    """
    rng = np.random.default_rng(seed)
    club = make_cinema(n_customers, n_products, seed=seed).interactions
    sku = [f"SH-{number:05}" for number in range(n_products)]
    lines: list[tuple[str, str, datetime]] = []
    for user, item in zip(club.user_codes, club.item_codes, strict=True):
        lines.append((f"C{10_000 + user}", sku[item], _random_time(rng)))
    lines += [lines[row] for row in rng.integers(0, len(lines), len(lines) // 10)]
    bots, test_accounts = ("C99001", "C99002"), ("test01", "test02", "qa-check")
    lines += [(bots[0], sku[at], _START + timedelta(seconds=2 * at)) for at in range(n_products)]
    shuffled = rng.permutation(n_products)
    lines += [(bots[1], sku[item], _START + timedelta(hours=at)) for at, item in enumerate(shuffled)]
    tried = rng.permutation(n_products)[:12]
    for account in test_accounts:
        start = _random_time(rng)
        lines += [(account, sku[item], start + timedelta(seconds=40 * at)) for at, item in enumerate(tried)]
    lines = [lines[row] for row in rng.permutation(len(lines))]
    kind = rng.choice(4, len(lines), p=[0.978, 0.01, 0.01, 0.002])
    texts = [HEADER]
    for number, (customer, product, time) in enumerate(lines):
        text = time.isoformat(sep="T") + "Z" if rng.random() < 0.5 else time.isoformat(sep=" ")
        customer = {1: "", 2: "NULL"}.get(int(kind[number]), customer)
        text = ("n/a" if number % 2 else "2024-02-31 10:00:00") if kind[number] == 3 else text
        texts.append(f"{500_000 + number};{customer};{product};{text};{rng.integers(1, 4)};{rng.gamma(2, 1.5):.2f}")
    path.write_bytes("\r\n".join(texts).encode("utf-8-sig") + b"\r\n")
    n_missing, n_bad_dates = int(np.isin(kind, (1, 2)).sum()), int((kind == 3).sum())
    return ShopLog(len(lines), n_missing, n_bad_dates, bots, test_accounts)


def _random_time(rng: np.random.Generator) -> datetime:
    return _START + timedelta(days=int(rng.integers(_DAYS)), seconds=int(rng.integers(14 * 3600)))


if __name__ == "__main__":
    print(write_shop_log(Path(sys.argv[1])))
