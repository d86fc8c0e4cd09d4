"""The denoiser for Apache Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from prorec._core.checks import check_choice, check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec.denoise.weighting import Weighting
from prorec.engines.spark.als import ALS
from prorec.engines.spark.cross_fit import CrossFit
from prorec.engines.spark.denoising_run import Run
from prorec.engines.spark.interaction_table import Clicks
from prorec.engines.spark.spark_result import SparkResult
from prorec.interactions.columns import ColumnRef
from prorec.noise.flagging import check_fdr
from prorec.transport.blocks import check_memory
from prorec.transport.gamma import parse_gamma
from prorec.transport.thresholds import Threshold, check_threshold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MEMORY = 128e6


@dataclass(frozen=True)
class SparkProRec:
    """`prorec.ProRec` for logs that outgrow one machine; parameters have the same names and mean the same."""

    model: ALS = field(default_factory=ALS)
    """Where factors come from, unless they are handed in."""
    _: KW_ONLY
    threshold: Threshold = "personal"
    """`personal` (Eq. 20), a number κ of items above it, the same for all users, or `none`, which is ρ_κ = 0."""
    gamma: float | str = "auto"
    """γ: how much the plan is spread."""
    beta: float = 20.0
    """β: how steep the step from 0 to 1 around the threshold is."""
    lam: float = 0.5
    """λ: how much of the present weights is kept."""
    rounds: int = 1
    """How often, at most."""
    relabel_from: Literal["current", "original"] = "current"
    """The weights that r is applied to."""
    tolerance: float = 0.01
    """When weights change by less than this share of their sum, that was the last round."""
    marginals: Literal["popularity", "uniform"] = "popularity"
    """How much mass each user sends and each item receives."""
    noise_method: str | CrossFit = "plan"
    """Where the noise probability comes from: `plan`, which orders clicks and costs nothing; `cross-fit`, or a
    `CrossFit`, from models that have not seen the click, which is calibrated and costs a fit of each for every fold."""
    weighting: Weighting = "plan"
    """What clicks are relabelled by: the plan's r; 1 − the noise probability, if that is cross-fitted; or both, r times
    that."""
    flag_fraction: float = 0.05
    """The share of interactions to flag, the most suspicious, where the probability is the plan's."""
    fdr: float = 0.1
    """The share of flags that may be wrong, where the probability is cross-fitted."""
    memory: float = _MEMORY
    """How many bytes of a block of users × items one task may hold."""
    partitions: int | None = None
    """Of users; by default, four for each core there is."""

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
        show_estimate: Callable[[str], object] | None = None,
    ) -> SparkResult:
        """Run Algorithm 1 on a table of interactions.

        Parameters
        ----------
        df : one row for each interaction: users, items, perhaps weights from 0 to 1, and any other columns
        factors : of any model, instead of ALS's: two DataFrames, (user, features) and (item, features), with the ids of
            `df` and an array of numbers for each. Then there is one round, because nothing learns again
        user_col, item_col, weight_col : names of columns, where they are not the usual ones
        work_dir : a folder that all executors reach, for intermediate results; the result is read from there.
            Without, a temporary one of this machine
        resume : go on from what an interrupted run left in `work_dir`
        show_estimate : called with the passes and bytes that the run will take, as text, before they start
        """
        self.check()
        clicks = Clicks.of(df, user_col, item_col, weight_col)
        given = None if factors is None else _checked_factors(factors)
        if given is not None and self.rounds > 1:
            raise InputError("with factors that are given there is one round only: nothing learns from the new weights")
        return Run(clicks, self, given, work_dir, resume, show_estimate).go()

    @property
    def cross_fit(self) -> CrossFit | None:
        """How noise is looked for, if not by the plan."""
        if isinstance(self.noise_method, CrossFit):
            return self.noise_method
        return CrossFit() if self.noise_method == "cross-fit" else None

    def check(self) -> None:
        """Refuse settings that make no sense, before any job starts."""
        if not isinstance(self.model, ALS):
            raise InputError(f"model must be prorec.engines.spark.ALS(…); got {type(self.model).__name__}")
        self.model.check()
        parse_gamma(self.gamma)
        check_float("beta", self.beta, 0)
        check_float("lam", self.lam, 0, 1)
        check_int("rounds", self.rounds, 1)
        check_float("tolerance", self.tolerance, 0)
        check_threshold(self.threshold)
        check_choice("relabel_from", self.relabel_from, ("current", "original"))
        check_choice("marginals", self.marginals, ("popularity", "uniform"))
        check_float("flag_fraction", self.flag_fraction, 0, 1)
        check_fdr(self.fdr)
        if isinstance(self.noise_method, CrossFit):
            self.noise_method.check()
        elif self.noise_method not in ("plan", "cross-fit"):
            raise InputError(
                f"noise_method must be 'plan', 'cross-fit' or a CrossFit; got {safe_repr(self.noise_method)}"
            )
        check_choice("weighting", self.weighting, ("plan", "probability", "both"))
        if self.weighting != "plan" and self.cross_fit is None:
            raise InputError(
                f"weighting={self.weighting!r} needs probabilities that mean something: noise_method='cross-fit'"
            )
        check_memory(self.memory, 1)
        if self.partitions is not None:
            check_int("partitions", self.partitions, 1)


def denoise(
    df: DataFrame,
    *,
    factors: tuple[DataFrame, DataFrame] | None = None,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    work_dir: str | None = None,
    **settings: Any,
) -> DataFrame:
    """A table of interactions, with weight, noise_probability and flagged in each row; settings: `SparkProRec`'s."""
    denoiser = SparkProRec(**settings)
    return denoiser.fit(
        df, factors=factors, user_col=user_col, item_col=item_col, weight_col=weight_col, work_dir=work_dir
    ).frame


def _checked_factors(factors: Any) -> tuple[DataFrame, DataFrame]:
    from pyspark.sql import DataFrame

    if not (isinstance(factors, tuple | list) and len(factors) == 2 and all(isinstance(f, DataFrame) for f in factors)):
        raise InputError("factors must be two Spark DataFrames: (user, features) and (item, features)")
    for frame, name in zip(factors, ("user", "item"), strict=True):
        kinds = dict(frame.dtypes)
        if name not in kinds or not kinds.get("features", "").startswith(("array<float", "array<double")):
            raise InputError(
                f"factors of {name}s must have a column {name!r} and an array of numbers called 'features'; "
                f"got {', '.join(f'{column} ({kind})' for column, kind in kinds.items())}"
            )
    return factors[0], factors[1]
