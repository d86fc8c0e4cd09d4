"""`find_noise`: from a log as users have it to the noise in it, in one call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec._core.progress import Progress, check_progress
from prorec.data.data_frame_log import read_data_frame
from prorec.data.source_table import read_source_table
from prorec.denoise import ProRec
from prorec.denoise.noise_summary import advise_training, describe_noise, summarize_noise
from prorec.denoise.noise_table import add_results, free_name
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef
from prorec.interactions.tables import FrameType, convert_frame, frame_type, read_frame
from prorec.models.model import as_interactions
from prorec.models.wrap import resolve_model
from prorec.noise import NoiseRateEstimate
from prorec.noise.account_groups import group_accounts
from prorec.noise.issue_sentences import list_users
from prorec.noise.marks import mark_users

_N_NAMED = 10


@dataclass(frozen=True, eq=False, repr=False)
class NoiseResult:
    """The noise in a log, as `find_noise` returns it. Printed, it is the summary."""

    denoiser: ProRec
    """The fitted denoiser, with a recommender that was trained on the weights."""
    rows: nw.DataFrame[Any]
    """The rows of the log, as they were given."""
    positions: NDArray[np.int64]
    """For each row, the position of its interaction in `denoiser.interactions_`; −1 for a row that was left out."""

    def __repr__(self) -> str:
        n_flagged = np.count_nonzero(self.flagged)
        return f"NoiseResult({len(self.positions):,} rows, {n_flagged:,} of them flagged; noise rate {self.noise_rate})"

    def __str__(self) -> str:
        return self.summary()

    @property
    def noise_rate(self) -> NoiseRateEstimate:
        """Noise rate of the log, with an interval."""
        return self.denoiser.finder_.noise_rate_

    @property
    def weights(self) -> NDArray[np.float32]:
        """Weight of each row to train with; 0 for a row that was left out."""
        return self._by_row(self.denoiser.weights_.data, 0)

    @property
    def noise_probability(self) -> NDArray[np.float32]:
        """Noise probability of each row; NaN for a row that was left out."""
        return self._by_row(self.denoiser.noise_probability_, np.nan)

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Whether each row is flagged."""
        return self._by_row(self.denoiser.flagged_, False)

    def table(self, frame: FrameType | None = None) -> Any:
        """Return the rows with weight, noise_probability and flagged, the most suspicious first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the log, or else pyarrow.

        Returns
        -------
        table
            Without rows that were left out. A new column is called `prorec_` and its name if the log has its name.
        """
        probability = self.noise_probability
        order = np.argsort(-probability, kind="stable")[: np.count_nonzero(~np.isnan(probability))]
        return convert_frame(add_results(self.denoiser, self.rows, self.positions)[order], frame)

    def users(self, frame: FrameType | None = None) -> Any:
        """Return a table of all users with their issues, the most suspicious first; see `prorec.NoiseFinder.users`.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the log, or else pyarrow.

        Returns
        -------
        table
        """
        return self.denoiser.finder_.users(frame)

    def items(self, frame: FrameType | None = None) -> Any:
        """Return a table of all items with their issues, the most suspicious first; see `prorec.NoiseFinder.items`.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the log, or else pyarrow.

        Returns
        -------
        table
        """
        return self.denoiser.finder_.items(frame)

    def annotate(self, table: Any) -> Any:
        """Return another table of the same columns with weight, noise_probability and flagged; see `ProRec.annotate`.

        Parameters
        ----------
        table : pandas, polars or pyarrow table
            Rows with a user and an item.

        Returns
        -------
        table
            Of the same type, with its rows in their order.
        """
        return self.denoiser.annotate(table)

    def summary(self) -> str:
        """Return in words how noisy the log is, how sure that is, and what to do next.

        Returns
        -------
        str
            Several lines, as `prorec denoise` prints them.
        """
        summary = summarize_noise(self.denoiser, self.positions[self.positions >= 0])
        column = free_name("weight", self.rows.columns)
        users = self._suspicious_users()
        marked = f"{', '.join(map(repr, users[:_N_NAMED]))}{', …' if len(users) > _N_NAMED else ''}"
        advice = f"If the suspicious accounts are no people, pass suspect_users=[{marked}] to find_noise."
        return "\n".join(
            [
                *describe_noise(summary),
                *([advice] if users else []),
                f"{advise_training(summary, column)} It is in table(), and as weights in the order of your rows.",
                "Look at the first rows of table(), or write a page about them with report('report.html').",
            ]
        )

    def report(self, path: str | Path, *, progress: Progress | None = None) -> None:
        """Write a page that shows which clicks are noise; see `prorec.report.write_report`.

        Parameters
        ----------
        path : str or Path
            File to write, such as report.html. An existing file is replaced.
        progress : Progress, optional
            Function that is called with the task, the number of steps done and the number of steps in all.

        Raises
        ------
        InputError
            If the file cannot be written.
        MissingExtraError
            If Jinja2 is not installed.
        """
        from prorec.report.page import write_report

        users, n_left_out = self._suspicious_users(), int(np.count_nonzero(self.positions < 0))
        command = f"find_noise(log, suspect_users={users!r})" if users else None
        n_rows = len(self.positions) - n_left_out
        shown: dict[str, Any] = {"n_rows": n_rows, "n_left_out": n_left_out, "cleaning_command": command}
        write_report(self.denoiser, path, progress=progress, **shown)

    def _suspicious_users(self) -> list[Any]:
        """Return the ids of the suspicious accounts."""
        finder = self.denoiser.finder_
        suspicious = group_accounts(finder.issues_, finder.basis_).suspicious
        return list(self.denoiser.interactions_.users[list_users(finder.issues_, suspicious)].tolist())

    def _by_row(self, values: NDArray[Any], missing: float) -> NDArray[Any]:
        """Return values of interactions in the order of the rows."""
        is_used = self.positions >= 0
        return np.where(is_used, values[np.where(is_used, self.positions, 0)], values.dtype.type(missing))


def find_noise(
    log: Any,
    user: ColumnRef = None,
    item: ColumnRef = None,
    *,
    weight: ColumnRef = None,
    timestamp: ColumnRef = None,
    time_format: str | None = None,
    skip_bad_rows: bool = False,
    suspect_users: Sequence[Any] = (),
    fdr: float = 0.2,
    progress: Progress | None = None,
) -> NoiseResult:
    """Find the interactions of a log that are noise, as `prorec denoise` does.

    Parameters
    ----------
    log : DataFrame, str, Path, Interactions or sparse matrix
        A data frame of pandas, polars or pyarrow with one interaction in each row; the path of a csv, tsv or parquet
        file; or interactions.
    user, item, weight, timestamp : str or int, optional
        Names or positions (from 0) of the columns; by default they are found by their usual names and their values.
        "none" means that no column is the weight or the time.
    time_format : str, optional
        Format of times that are neither numbers nor ISO times, as in `datetime.strptime`.
    skip_bad_rows : bool, default False
        Leave out rows that cannot be used, with a warning that counts them. By default they are refused.
    suspect_users : sequence, optional
        Ids of users that are no people, such as test accounts. All of their interactions count as noise.
    fdr : float, default 0.2
        Share of the flags that may be wrong.
    progress : Progress, optional
        Function that is called with the task, the number of steps done and the number of steps in all, such as a
        `prorec.ConsoleProgress`.

    Returns
    -------
    NoiseResult
        Rows of a file that were left out are not in it. Those of a data frame have the weight 0.

    Raises
    ------
    InputError
        If a column or a user is not found, or a row has no usable value.

    Examples
    --------
    >>> import prorec
    >>> clicks = prorec.load_dataset("cinema").to_table("pandas")[["user", "item", "timestamp"]]
    >>> result = prorec.find_noise(clicks)
    >>> result.table().columns.tolist()
    ['user', 'item', 'timestamp', 'weight', 'noise_probability', 'flagged']
    >>> clicks["weight"] = result.weights
    """
    check_progress(progress)
    columns = {"user_col": user, "item_col": item, "weight_col": weight, "timestamp_col": timestamp}
    options: dict[str, Any] = {**columns, "time_format": time_format, "skip_bad_rows": skip_bad_rows}
    with _short_names():
        clicks, rows, positions = _read(log, options)
    denoiser = ProRec(resolve_model("nce", clicks.matrix.shape), fdr=fdr)
    suspect = mark_users(clicks, suspect_users) if len(suspect_users) else None
    return NoiseResult(denoiser.fit(clicks, suspect=suspect, track_loss=True, progress=progress), rows, positions)


def _read(log: Any, options: dict[str, Any]) -> tuple[Interactions, nw.DataFrame[Any], NDArray[np.int64]]:
    """Return the interactions, the rows, and the position of each row among the interactions."""
    if isinstance(log, str | Path):
        source = read_source_table(log, with_times=True, **options)
        return source.interactions, read_frame(source.infer_types(source.table)), source.positions
    if frame_type(log) is not None:
        clicks, positions = read_data_frame(log, **options)
        return clicks, read_frame(log), positions
    for name, value in options.items():
        if value:
            raise InputError(
                f"{name} must be left out for {type(log).__name__}, which has no columns; got {safe_repr(value)}"
            )
    clicks = as_interactions(log)
    rows = read_frame(clicks.to_table())
    if (clicks.matrix.data == 1).all():  # then there were no weights, and those that are found take the name
        rows = rows.drop("weight")
    return clicks, rows, np.arange(len(clicks))


@contextmanager
def _short_names() -> Iterator[None]:
    """Give the arguments in messages of readers the names that they have here: `user` instead of `user_col`."""

    def shorten(message: object) -> str:
        return re.sub(r"\b(user|item|weight|timestamp)_col\b", r"\1", str(message))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except InputError as error:
            raise InputError(shorten(error)) from None
    for each in caught:
        warnings.warn(shorten(each.message), each.category, stacklevel=4)
