"""The state of a run in a directory that all executors reach, so that an interrupted run can continue."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from prorec._core.errors import InputError
from prorec._core.progress import Progress

_IDENTITY_FILE = "about.json"


class WorkDirectory:
    """Results of steps: tables and small JSON values, each complete or absent.

    A resumed run reads what an earlier one wrote instead of computing it again. The name of a step is also that of its
    file: `round 1: sums over all pairs` is written to `round-1/sums-over-all-pairs`.

    Parameters
    ----------
    spark : SparkSession
        The session that reads and writes the tables.
    path : str
        Path of the directory, on any file system that Spark writes to.
    identity : Any
        Settings and data of the run, as JSON. A directory with another identity is not resumed.
    resume : bool
        Continue from the contents of the directory; otherwise they are removed.
    progress : Progress, optional
        Called when a step starts and when it ends.

    Raises
    ------
    InputError
        If the directory to resume from belongs to a run with other settings or other data.
    """

    def __init__(
        self, spark: SparkSession, path: str, identity: Any, *, resume: bool, progress: Progress | None = None
    ) -> None:
        self._spark, self.path, self._progress = spark, path.rstrip("/"), progress
        self._files = HadoopFiles(spark)
        self._step: str | None = None
        text, file = json.dumps(identity, sort_keys=True, default=str), f"{self.path}/{_IDENTITY_FILE}"
        if resume and self._files.exists(file):
            if self._files.read_text(file) != text:
                raise InputError(
                    f"{self.path}: cannot resume a run that began with other options or other data. "
                    "Start again without --resume (resume=False), or use another directory."
                )
        else:
            self._files.remove(self.path)
            self._files.write_text(file, text)

    def describe(self) -> str:
        """Return what is kept of the run, in a sentence."""
        during = "" if self._step is None else f"It was at the step {self._step!r}. "
        return f"{during}The steps before are kept in {self.path}: run it again with --resume (resume=True)"

    def cached_table(self, step: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the table of a step; make and write it first if it is absent.

        Parameters
        ----------
        step : str
            Name of the step, for progress, for Spark's web pages and for the file.
        make : callable
            Returns the table.

        Returns
        -------
        DataFrame
            The table, read from the directory.
        """
        path = self._path(step)
        if not self._files.exists(f"{path}/_SUCCESS"):
            self.start_step(step)
            make().write.mode("overwrite").parquet(path)
        return self._spark.read.parquet(path)

    def cached_json(self, step: str, make: Callable[[], Any]) -> Any:
        """Return the JSON value of a step; compute and write it first if it is absent.

        Parameters are those of `cached_table`, with a value in place of a table.
        """
        path = f"{self._path(step)}.json"
        if not self._files.exists(path):
            self.start_step(step)
            self._files.write_text(path, json.dumps(make()))
        return self.read_json(step)

    def read_json(self, step: str) -> Any:
        """Return the JSON value that a step wrote."""
        return json.loads(self._files.read_text(f"{self._path(step)}.json"))

    def _path(self, step: str) -> str:
        return f"{self.path}/{step.replace(': ', '/').replace(' ', '-')}"

    def start_step(self, step: str | None) -> None:
        """Announce the next step to the progress callback and on Spark's web pages; None ends the last step."""
        if self._progress is not None and self._step is not None:
            self._progress(self._step, 1, 1)
        self._step = step
        self._spark.sparkContext.setJobGroup("prorec", f"prorec: {step or 'writing the result'}")
        if self._progress is not None and step is not None:
            self._progress(step, 0, 1)

    def set_checkpoint_dir(self) -> None:
        """Give Spark a directory for checkpoints of long lineages, unless it has one."""
        if self._spark.sparkContext.getCheckpointDir() is None:
            self._spark.sparkContext.setCheckpointDir(f"{self.path}/checkpoints")


class HadoopFiles:
    """Files on any file system that Hadoop knows, such as local, `hdfs:` or `s3a:`.

    Parameters
    ----------
    spark : SparkSession
        The session whose Hadoop configuration is used.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = spark.sparkContext._jvm
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()

    def _open(self, path: str) -> tuple[Any, Any]:
        """Return the file system of a path, and the path as Hadoop's own object."""
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
        return hadoop_path.getFileSystem(self._configuration), hadoop_path

    def exists(self, path: str) -> bool:
        """Return whether a file or a directory exists."""
        system, file = self._open(path)
        return bool(system.exists(file))

    def remove(self, path: str) -> None:
        """Remove a file or a directory, if it exists."""
        system, file = self._open(path)
        system.delete(file, True)

    def move(self, path: str, target: str) -> None:
        """Move a file or a directory; the directory above the target is made if it is absent.

        Raises
        ------
        InputError
            If the file system refuses to move it.
        """
        system, file = self._open(path)
        target_file = self._open(target)[1]
        system.mkdirs(target_file.getParent())
        if not system.rename(file, target_file):
            raise InputError(f"{target}: cannot be written. The complete output is in {path}; move it from there.")

    def write_text(self, path: str, text: str) -> None:
        """Write a small file under a temporary name, then rename it, so that it is complete or absent."""
        system, file = self._open(f"{path}.part")
        stream = system.create(file, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self.remove(path)
        self.move(f"{path}.part", path)

    def read_text(self, path: str) -> str:
        """Return the contents of a small file."""
        system, file = self._open(path)
        stream = system.open(file)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
