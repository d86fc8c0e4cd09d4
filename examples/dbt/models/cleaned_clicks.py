"""A Python model of dbt-duckdb: the clicks with weight, noise_probability and flagged, for the models after it.

Put it into the folder `models/` of a dbt project that has a model or a seed `clicks` with the columns user and item.
"""

from __future__ import annotations

from typing import Any

import prorec


def model(dbt: Any, session: Any) -> Any:
    """Return the cleaned table; dbt calls this function and writes the result."""
    dbt.config(materialized="table", packages=["prorec"])
    clicks = dbt.ref("clicks").df()
    result = prorec.find_noise(clicks, user="user", item="item", fdr=float(dbt.config.get("fdr", 0.1)))
    return result.table()
