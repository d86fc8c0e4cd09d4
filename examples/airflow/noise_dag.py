"""A DAG of Airflow 3 that cleans the clicks of each day. Put this file and `noise_task.py` into the folder of DAGs."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.exceptions import AirflowFailException
from airflow.sdk import dag, task
from noise_task import StopPipelineError, clean_log

FOLDER = "/data/clicks"


@dag(schedule="@daily", start_date=pendulum.datetime(2026, 1, 1), catchup=False)  # type: ignore[untyped-decorator]
def clean_clicks() -> None:
    """Clean the clicks of a day, and stop if more than a fifth of them is noise."""

    @task(retries=2)  # type: ignore[untyped-decorator]
    def clean(ds: str = "") -> dict[str, Any]:
        """Clean the log of the day `ds`; fail without a retry if the data is to blame."""
        try:
            return clean_log(f"{FOLDER}/{ds}.csv", f"{FOLDER}/{ds}.cleaned.parquet", f"{FOLDER}/{ds}.html")
        except StopPipelineError as error:
            raise AirflowFailException(str(error)) from error

    clean()


clean_clicks()
