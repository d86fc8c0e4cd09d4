"""What a run has done so far, in a folder that all executors reach: tables that are there whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prorec._core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ABOUT = "about.json"


class WorkDirectory:
    """Tables by name. One that was written whole is read again rather than made again, if the run is a resumed one.

    Parameters
    ----------
    spark : the session
    path : of the folder; any file system that Spark writes to
    identity : what tells this run from others: what is there of another is refused
    resume : go on from what is there; otherwise start anew
    """

    def __init__(self, spark: SparkSession, path: str, identity: Any, *, resume: bool) -> None:
        self._spark, self.path = spark, path.rstrip("/")
        self._hadoop = Files(spark)
        told = json.dumps(identity, sort_keys=True, default=str)
        about = f"{self.path}/{_ABOUT}"
        if resume and self._hadoop.exists(about):
            if self._hadoop.text(about) != told:
                raise InputError(
                    f"{self.path}: this was begun with other options or other data; without --resume it starts anew"
                )
        else:
            self._hadoop.remove(self.path)
            self._hadoop.write(about, told)

    def table(self, name: str, step: str, make: Callable[[], DataFrame]) -> DataFrame:
        """The table of that name; made and written first, if it is not there. The step is what people watching see."""
        if not self.has(name):
            self.say(step)
            self.write(name, make())
        return self.read(name)

    def write(self, name: str, table: DataFrame) -> None:
        """Write a table."""
        table.write.mode("overwrite").parquet(f"{self.path}/{name}")

    def read(self, name: str) -> DataFrame:
        """A table that has been written."""
        return self._spark.read.parquet(f"{self.path}/{name}")

    def has(self, name: str) -> bool:
        """Whether a table is there, whole."""
        return self._hadoop.exists(f"{self.path}/{name}/_SUCCESS")

    def number(self, name: str, step: str, make: Callable[[], Any]) -> Any:
        """The same of a number, or a few of them."""
        path = f"{self.path}/{name}.json"
        if not self._hadoop.exists(path):
            self.say(step)
            self._hadoop.write(path, json.dumps(make()))
        return self.known(name)

    def known(self, name: str) -> Any:
        """Numbers that have been written."""
        return json.loads(self._hadoop.text(f"{self.path}/{name}.json"))

    def keep_checkpoints(self) -> None:
        """Give Spark a place for what long chains of steps cut themselves off at, unless it has one."""
        if self._spark.sparkContext.getCheckpointDir() is None:
            self._spark.sparkContext.setCheckpointDir(f"{self.path}/checkpoints")

    def say(self, step: str) -> None:
        """Name what comes next, in Spark's pages too."""
        self._spark.sparkContext.setJobGroup("prorec", f"prorec: {step}")


class Files:
    """Files of whatever system a path belongs to, by way of Hadoop, which Spark has with it."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = spark.sparkContext._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
        return place.getFileSystem(self._conf), place

    def exists(self, path: str) -> bool:
        """Whether there is anything."""
        system, place = self._at(path)
        return bool(system.exists(place))

    def remove(self, path: str) -> None:
        """Remove a file or a folder, if it is there."""
        system, place = self._at(path)
        system.delete(place, True)

    def move(self, path: str, to: str) -> None:
        """Give something another name."""
        system, place = self._at(path)
        target = self._at(to)[1]
        system.mkdirs(target.getParent())
        if not system.rename(place, target):
            raise InputError(f"{to}: could not be written; what was to be there is in {path}")

    def write(self, path: str, text: str) -> None:
        """Write a small file: under another name first, so that it is whole when it is there."""
        system, place = self._at(f"{path}.part")
        stream = system.create(place, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        system.delete(self._at(path)[1], False)
        self.move(f"{path}.part", path)

    def text(self, path: str) -> str:
        """Read a small file."""
        system, place = self._at(path)
        stream = system.open(place)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
