"""Promises about releases: one version everywhere, minimum versions, workflows that name things that exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

import prorec
from prorec._core.versions import find_unsupported_version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML_FILES = [*WORKFLOWS, ROOT / ".github/dependabot.yml", ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]


def load_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def commands(workflow: Path) -> list[str]:
    """Return the shell commands of a workflow."""
    jobs = load_yaml(workflow)["jobs"].values()
    return [line for job in jobs for step in job["steps"] for line in step.get("run", "").splitlines()]


def import_tool(name: str) -> Any:
    """Return a script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_version_is_the_same_everywhere() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", prorec.__version__)
    assert PROJECT["dynamic"] == ["version"], "hatch reads it from src/prorec/__init__.py"
    assert load_yaml(ROOT / "CITATION.cff")["version"] == prorec.__version__
    assert f"version = {{{prorec.__version__}}}" in (ROOT / "README.md").read_text("utf-8")
    assert re.search(rf"^## {re.escape(prorec.__version__)} \(", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)


def test_the_changelog_groups_changes_by_kind() -> None:
    kinds = re.findall(r"^### (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("version", [(3, 10, 9, "final", 0), (3, 9, 0, "final", 0)])
def test_an_older_python_is_refused_in_one_line(version: tuple[object, ...]) -> None:
    code = f"import sys; sys.version_info = {version}; import prorec"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = done.stderr.strip().splitlines()[-1]
    assert message == f"ImportError: prorec needs Python 3.11 or later; this is Python {version[0]}.{version[1]}."
    assert PROJECT["requires-python"] == ">=3.11"


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"numpy": "1.26.4"}, "prorec needs numpy 2.0 or later; 1.26.4 is installed: pip install 'numpy>=2.0'."),
        ({"scipy": "1.9.0rc1"}, "prorec needs scipy 1.15 or later; 1.9.0rc1 is installed: pip install 'scipy>=1.15'."),
        ({"rich": "13", "typer": "0.100", "numpy": "2"}, None),
    ],
)
def test_an_older_dependency_is_refused_in_one_line(
    installed: dict[str, str], message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = [*PROJECT["dependencies"], "torch>=99; extra == 'torch'"]
    newest = {re.split(">=", each)[0]: "9999" for each in PROJECT["dependencies"]}
    monkeypatch.setattr(metadata, "requires", lambda _: requirements)
    monkeypatch.setattr(metadata, "version", (newest | installed).__getitem__)
    assert find_unsupported_version() == message


def test_a_missing_dependency_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: ["no-such-package>=1.2"])
    assert find_unsupported_version() == (
        "prorec needs no-such-package 1.2 or later, which is not installed: pip install 'no-such-package>=1.2'."
    )


def test_importing_with_an_older_dependency_gives_one_line() -> None:
    code = "from importlib import metadata; metadata.requires = lambda _: ['numpy>=99']; import prorec"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith("ImportError: prorec needs numpy 99 or later; ")


def test_docs_need_neither_pytorch_nor_spark_and_lint_needs_only_linters() -> None:
    extras = PROJECT["optional-dependencies"]
    names = {extra: {re.split(r"[>=<\[;]", each)[0] for each in extras[extra]} for extra in ("docs", "lint")}
    assert not names["docs"] & {"torch", "pyspark", "prorec"}
    assert names["lint"] == {"import-linter", "ruff"}


def test_the_minimum_versions_are_the_lower_bounds() -> None:
    text = (ROOT / "constraints-minimum.txt").read_text("utf-8")
    assert text == import_tool("minimum_versions").minimum_versions(), "run python tools/minimum_versions.py"


def test_coverage_is_summed_by_package() -> None:
    def entry(*numbers: int) -> dict[str, dict[str, int]]:
        names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        return {"summary": dict(zip(names, numbers, strict=True))}

    files = {
        "src/prorec/noise/a.py": entry(10, 9, 4, 3),
        "src/prorec/noise/b.py": entry(6, 3, 0, 0),
        "src/prorec/engines/spark/c.py": entry(4, 4, 0, 0),
        "src/prorec/__init__.py": entry(1, 1, 0, 0),
    }
    assert import_tool("coverage_by_package").format_table(files).splitlines()[2:] == [
        "| `engines/` | 4 | 0 | 100.0% |",
        "| `noise/` | 16 | 4 | 75.0% |",
        "| files beside them | 1 | 0 | 100.0% |",
        "| total | 21 | 4 | 80.0% |",
    ]


def test_the_mutation_check_mutates_ten_functions_that_exist() -> None:
    tool = import_tool("mutation_check")
    assert len({mutation.function.split("/")[0] for mutation in tool.MUTATIONS}) == 10
    for mutation in tool.MUTATIONS:
        source = (ROOT / mutation.path).read_text("utf-8")
        assert f"def {mutation.function.partition('::')[2]}(" in source
        compile(mutation.apply(source), mutation.path, "exec")
        assert (ROOT / mutation.tests[0]).is_dir()
    with pytest.raises(ValueError, match=r"must have the text .* once, but has it 0 times"):
        tool.MUTATIONS[0].apply("")


@pytest.mark.parametrize(
    ("tag", "date", "changes", "message"),
    [
        ("v9.9.9", "2027-01-31", "", "tag must be v1.2.3, but HEAD has v9.9.9"),
        ("v1.2.3", "unreleased", "", "must give the date of a release, but says (unreleased)"),
        ("v1.2.3", "2027-01-31", " M README.md", "no uncommitted changes"),
        ("v1.2.3", "2027-01-31", "", ""),
        ("", "unreleased", " M README.md", ""),
    ],
)
def test_a_tag_must_fit_version_and_changelog(
    tag: str, date: str, changes: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = import_tool("release_check")
    (tmp_path / "src" / "prorec").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "prorec" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## 1.2.3 ({date})\n\n## 1.2.2 (2026-01-01)\n")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "run", lambda *command: tag if command[1] == "tag" else changes)
    check = tool.ReleaseCheck(tmp_path)
    if message:
        with pytest.raises(tool.CheckError, match=re.escape(message)):
            check.check_changelog()
    else:
        assert check.check_changelog() == f"1.2.3 ({date}), {'tag ' + tag if tag else 'no tag'}"


def test_the_smoke_tests_exist() -> None:
    lines = (ROOT / "tests" / "smoke.txt").read_text("utf-8").split()
    paths = [line for line in lines if not line.startswith("--")]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    assert isinstance(load_yaml(path), dict)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_well_formed(workflow: Path) -> None:
    content = load_yaml(workflow)
    assert True in content, "YAML reads the key `on` as true"
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert job["runs-on"], name
        assert job["timeout-minutes"] <= 60, name
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= content["jobs"].keys()
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), name
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), "actions are pinned to major versions"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_only_targets_and_files_that_exist(workflow: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {target for line in re.findall(r"^([\w -]+):", makefile, re.MULTILINE) for target in line.split()}
    for command in commands(workflow):
        for target in re.findall(r"\bmake ([\w-]+)", command):
            assert target in targets, command
        for path in re.findall(r"[\w./-]+\.(?:txt|py|toml)\b", command):
            assert (ROOT / path).exists(), command


def test_the_workflow_covers_every_supported_python_and_system() -> None:
    jobs = load_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]
    declared = {name.split(" :: ")[-1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)}
    assert set(jobs["test"]["strategy"]["matrix"]["python"]) == declared
    assert {name.split("-")[0] for name in jobs["smoke"]["strategy"]["matrix"]["os"]} == {"macos", "windows"}


def test_pages_about_the_project_exist() -> None:
    for name in ("CODE_OF_CONDUCT.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"):
        assert (ROOT / name).exists(), name
