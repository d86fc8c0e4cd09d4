"""The denoiser for Apache Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Literal

from pyspark.sql import DataFrame

from prorec._core.checks import check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.progress import Progress, check_progress
from prorec.denoise.settings import DenoiserSettings
from prorec.engines.spark.cross_fit import CrossFit
from prorec.engines.spark.executor_check import check_executors
from prorec.engines.spark.failures import explain_failures
from prorec.engines.spark.interaction_table import InteractionTable
from prorec.engines.spark.spark_factors import ALS, check_factor_schema
from prorec.engines.spark.spark_result import SparkResult
from prorec.engines.spark.spark_run import SparkRun
from prorec.interactions.columns import ColumnRef
from prorec.transport.blocks import check_memory


@dataclass
class SparkProRec(DenoiserSettings):
    """`prorec.ProRec` for logs that outgrow one machine.

    Parameters have the names and meanings of `ProRec`'s. Transport is always relaxed (Eq. 7).

    Examples
    --------
    >>> SparkProRec(ALS(rank=20), rounds=2).model.rank
    20
    """

    model: ALS = field(default_factory=ALS)
    """Recommender that learns the factors, unless `fit` is given some."""
    _: KW_ONLY
    noise_method: Literal["cross-fit", "plan"] | CrossFit = "cross-fit"
    """How noise is found: `cross-fit`, by models that have not seen the click, which gives calibrated probabilities; or
    `plan`, by Algorithm 1 of the paper, which orders interactions. Also a `CrossFit`."""
    memory: float = 128e6
    """Bytes of a block of users × items that one task may hold."""
    partitions: int | None = None
    """Number of partitions of users; by default four for each core, and one for logs of at most a million rows."""

    def fit(
        self,
        df: DataFrame,
        *,
        factors: tuple[DataFrame, DataFrame] | None = None,
        user_col: ColumnRef = None,
        item_col: ColumnRef = None,
        weight_col: ColumnRef = None,
        work_dir: str | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        show_estimate: Callable[[str], object] | None = None,
    ) -> SparkResult:
        """Weight the interactions of a table by the probability that they are genuine, or by Algorithm 1.

        Parameters
        ----------
        df : DataFrame
            One row per interaction: users, items, optional weights in [0, 1], and any other columns.
        factors : tuple of DataFrame, optional
            Factors of any model in place of ALS: columns `user` and `features`, and columns `item` and `features`,
            with the ids of `df`. There is one round then, because no model learns from the new weights.
        user_col, item_col, weight_col : str or int, optional
            Names or positions of columns that do not have the usual names.
        work_dir : str, optional
            A directory that all executors reach. It receives intermediate results, and the result is read from there.
            The default is a temporary directory, if Spark runs on one machine.
        resume : bool, default False
            Continue the interrupted run that left its state in `work_dir`.
        progress : Progress, optional
            Called when a step starts and when it ends.
        show_estimate : callable, optional
            Called once with the expected passes and bytes, as text, before the passes start.

        Returns
        -------
        SparkResult

        Raises
        ------
        InputError
            If a parameter, the table or the factors cannot be used, or if executors have another Python or no prorec.
            Faults that the schema shows are found before any job starts.
        EngineError
            If Spark fails, because executors are lost or a disk is full. What was done is kept in `work_dir`.
        """
        self.check_settings()
        check_progress(progress)
        table = InteractionTable.from_frame(df, user_col, item_col, weight_col)
        if factors is not None:
            factors = check_factor_schema(factors)
            if self.rounds > 1:
                raise InputError(
                    "given factors allow one round only, because no model learns from the new weights; "
                    f"got rounds={self.rounds}. Leave out factors or rounds."
                )
        with explain_failures(lambda: "Nothing was done yet"):
            check_executors(table.frame.sparkSession)
            run = SparkRun(table, self, factors, work_dir, resume, progress)
        with explain_failures(run.directory.describe):
            return run.run(show_estimate)

    @property
    def cross_fit(self) -> CrossFit | None:
        """Settings of cross-fitting; None if noise probabilities come from the plan."""
        if isinstance(self.noise_method, CrossFit):
            return self.noise_method
        return CrossFit() if self.noise_method == "cross-fit" else None

    def check_settings(self) -> None:
        """Raise `InputError` unless all parameters are valid."""
        if not isinstance(self.model, ALS):
            raise InputError(f"model must be prorec.engines.spark.ALS(…); got {type(self.model).__name__}")
        self.model.check_settings()
        if isinstance(self.noise_method, CrossFit):
            self.noise_method.check_settings()
        elif self.noise_method not in ("cross-fit", "plan"):
            raise InputError(
                f"noise_method must be 'cross-fit', 'plan' or a CrossFit; got {safe_repr(self.noise_method)}"
            )
        self.check_shared_settings(is_cross_fitted=self.noise_method != "plan")
        if self.noise_method != "plan" and self.weighting in ("plan", "both"):
            raise InputError(
                f"weighting must be 'auto' or 'probability' with cross-fitting on Spark; got {self.weighting!r}. Pass "
                "noise_method='plan' for the labels of the paper's Algorithm 1."
            )
        check_memory(self.memory, 1)
        if self.partitions is not None:
            check_int("partitions", self.partitions, 1)


def denoise(df: DataFrame, **arguments: Any) -> DataFrame:
    """Add weights, noise probabilities and flags to a table of interactions.

    Parameters
    ----------
    df : DataFrame
        One row per interaction.
    **arguments
        Parameters of `SparkProRec`, and arguments of `SparkProRec.fit`.

    Returns
    -------
    DataFrame
        The same rows with columns `weight`, `noise_probability` and `flagged`. A new column has the prefix `prorec_`
        if the table has a column of its name.

    Raises
    ------
    InputError
        As `SparkProRec.fit`.
    """
    settings = {each.name: arguments.pop(each.name) for each in fields(SparkProRec) if each.name in arguments}
    return SparkProRec(**settings).fit(df, **arguments).frame
