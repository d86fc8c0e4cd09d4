"""The examples for other systems. Those for Spark are in tests/engines/test_spark_score.py."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import prorec

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def import_example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def clicks() -> pd.DataFrame:
    frame: pd.DataFrame = prorec.make_cinema(120, 90, seed=2).interactions.to_table("pandas")[["user", "item"]]
    return frame


@pytest.fixture(scope="module")
def model(clicks: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples") / "model"
    prorec.ProRec(prorec.models.SVD(rank=4)).fit(clicks).save(folder)
    return folder


def test_the_readme_lists_every_example() -> None:
    listed = set(re.findall(r"\]\(([\w./]+)\)", (EXAMPLES / "README.md").read_text("utf-8")))
    files = {path for path in EXAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {each for each in listed if not each.startswith("..")} == {
        str(path.relative_to(EXAMPLES)) for path in files if path.name != "README.md"
    }


def test_mlflow(clicks: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="MLflow is not installed")
    import_example("mlflow_noise_model.py").save_noise_model(str(model), str(tmp_path / "mlflow"))
    # In a process of its own, which knows nothing of the example but what MLflow saved.
    code = (
        "import sys, mlflow.pyfunc, pandas as pd\n"
        "new = pd.read_csv(sys.argv[2])\n"
        "mlflow.pyfunc.load_model(sys.argv[1]).predict(new).to_csv(sys.argv[3])\n"
    )
    assert pyfunc is not None
    new = clicks.iloc[[5, 3, 5, 9]].copy()
    new.loc[len(new)] = [int(clicks["user"].iloc[0]), 99_999]
    new.to_csv(tmp_path / "new.csv", index=False)
    words = [str(tmp_path / name) for name in ("mlflow", "new.csv", "scored.csv")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scored = pd.read_csv(tmp_path / "scored.csv")
    denoiser = prorec.load(model)
    assert isinstance(denoiser, prorec.ProRec)
    expected = denoiser.score(new, "pandas").set_index(["user", "item"])
    for row, (user, item) in enumerate(new.itertuples(index=False)):
        assert scored["basis"][row] == expected.loc[(user, item), "basis"]
        np.testing.assert_allclose(
            scored["noise_probability"][row], expected.loc[(user, item), "noise_probability"], rtol=1e-5
        )
    assert scored["basis"].iloc[-1] == "unknown item"


class Dbt:
    """What dbt-duckdb hands to a Python model."""

    class Config(dict[str, Any]):
        def __call__(self, **values: Any) -> None:
            self.update(values)

    def __init__(self, session: Any) -> None:
        self.session, self.config = session, Dbt.Config()

    def ref(self, name: str) -> Any:
        return self.session.table(name)


def test_dbt(clicks: pd.DataFrame) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with duckdb.connect() as session:
        session.register("frame", clicks.assign(note="kept"))
        session.execute("create table clicks as select * from frame")
        dbt = Dbt(session)
        cleaned = import_example("dbt/models/cleaned_clicks.py").model(dbt, session)
        assert dbt.config["materialized"] == "table"
        session.register("result", cleaned)
        session.execute("create table cleaned_clicks as select * from result")  # as dbt-duckdb writes it
        rows = session.execute(
            "select count(*), count(distinct (user, item)), min(weight) >= 0, max(noise_probability) <= 1, min(note)"
            " from cleaned_clicks"
        ).fetchone()
        assert rows == (len(clicks), len(clicks), True, True, "kept")


def test_the_airflow_task(clicks: pd.DataFrame, tmp_path: Path) -> None:
    task = import_example("airflow/noise_task.py")
    clicks.to_csv(tmp_path / "log.csv", index=False)
    paths = [str(tmp_path / name) for name in ("log.csv", "cleaned.csv", "report.html")]
    summary = task.clean_log(*paths, fail_above=1)
    assert summary["rows"] == len(clicks)
    assert summary["gate"]["passed"]
    assert (tmp_path / "report.html").exists()
    with pytest.raises(task.StopPipelineError, match=r"bad_data: .*there is no such file"):
        task.clean_log(str(tmp_path / "gone.csv"), *paths[1:])
    command = json.dumps({"error": {"kind": "failed_run", "message": "no space", "exit_code": 1}})
    task.subprocess = ModuleType("subprocess")
    task.subprocess.run = lambda *_, **__: subprocess.CompletedProcess([], 1, "", f"a warning\n{command}\n")
    with pytest.raises(RuntimeError, match="no space"):
        task.clean_log(*paths)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A stand-in for the few names of Airflow that the DAG imports; records which tasks it calls."""
    called: list[str] = []

    def dag(**settings: Any) -> Any:
        assert settings["schedule"] == "@daily"
        return lambda function: function

    def task(**settings: Any) -> Any:
        assert settings["retries"] > 0
        return lambda function: lambda *_: called.append(function.__name__)

    modules: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.sdk": {"dag": dag, "task": task},
        "airflow.exceptions": {"AirflowFailException": type("AirflowFailException", (Exception,), {})},
        "pendulum": {"datetime": lambda *_: None},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(EXAMPLES / "airflow"))
    yield called
    sys.modules.pop("noise_task", None)


def test_the_dag_calls_the_task(airflow: list[str]) -> None:
    import_example("airflow/noise_dag.py")
    assert airflow == ["clean"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_examples_import_what_they_say(path: Path) -> None:
    """Besides prorec and the standard library, an example imports the system that it is for."""
    tree = ast.parse(path.read_text("utf-8"))
    names = {each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    names |= {alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names}
    others = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"prorec", "noise_task"}
    assert others <= {"mlflow", "numpy", "pandas", "pyspark", "airflow", "pendulum"}


def test_the_steps_of_the_dockerfile(tmp_path: Path) -> None:
    """What the build would do, but for the base image and the network."""
    text = (EXAMPLES / "docker/Dockerfile").read_text("utf-8")
    steps = [line.partition(" ")[::2] for line in text.splitlines() if line and not line.startswith("#")]
    assert [name for name, _ in steps] == ["FROM", "COPY", "RUN", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"]
    values = dict(steps)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.fullmatch(r"python:(\d+)\.(\d+)-slim", values["FROM"])
    assert version is not None
    assert (int(version[1]), int(version[2])) >= (3, 11)
    # COPY finds the one wheel that the build makes.
    source, target = values["COPY"].split()
    (tmp_path / "dist").mkdir()
    wheel = tmp_path / "dist" / f"prorec-{prorec.__version__}-py3-none-any.whl"
    wheel.touch()
    assert list(tmp_path.glob(source)) == [wheel]
    # The shell passes that wheel with its extra to pip.
    install = next(value for name, value in steps if name == "RUN").replace(target, f"{tmp_path}/dist/")
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", "-ec", install], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["-m", "pip", "install", "--no-cache-dir", f"{wheel}[report]"]
    assert not wheel.exists(), "it does not stay in the image"
    assert "report" in project["optional-dependencies"]
    assert values["USER"] in steps[3][1], "the user who runs it is made before, and is not root"
    assert json.loads(values["ENTRYPOINT"])[0] in project["scripts"]
    assert json.loads(values["CMD"]) == ["--help"]
