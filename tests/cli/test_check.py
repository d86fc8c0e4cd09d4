"""`prorec check`: everything about a log at once, and the command to run next."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import prorec
from tests.cli.shell import run, run_anew
from tests.shop_log import ShopLog, write_shop_log


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ShopLog]:
    path = tmp_path_factory.mktemp("shop") / "orders.csv"
    return path, write_shop_log(path, 200, 150)


def test_from_a_messy_log_to_a_report_in_two_commands(shop: tuple[Path, ShopLog], tmp_path: Path) -> None:
    path, facts = shop
    (tmp_path / "orders.csv").write_bytes(path.read_bytes())
    checked = run("check", "orders.csv", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    words = " ".join(checked.stdout.split())
    for text in (
        "text with semicolons between columns, with a header, UTF-8 with a byte order mark",
        "Customer user its name",
        "SKU item its name",
        "OrderedAt time its name and its values",
        "Weight – no weight: weights are numbers from 0 to 1",
        f"{facts.n_rows:,} rows",
        f"{facts.n_bad_rows:,} rows cannot be used {facts.n_missing_customers} the user id is missing",
        f"{facts.n_bad_dates} the timestamp is not a number or a date",
        "from 2024-01-01",
    ):
        assert text in words
    for account in (*facts.bots, *facts.test_accounts):
        assert account in checked.stdout
    command, cleaning = (shlex.split(line) for line in checked.stdout.splitlines() if line.startswith("  prorec"))
    assert command[:3] == cleaning[:3] == ["prorec", "denoise", "orders.csv"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["orders.csv"], "check writes nothing"
    done = run(*command[1:], "-p", "rank=8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "DataWarning" not in done.stderr
    assert "not used" not in done.stderr, "the command says that the weights are none"
    cleaned = pacsv.read_csv(tmp_path / "orders.denoised.csv")
    rejected = pacsv.read_csv(tmp_path / "orders.denoised.rejected.csv")
    assert rejected.num_rows == facts.n_bad_rows
    assert cleaned.num_rows + rejected.num_rows == facts.n_rows
    assert rejected.column_names == ["line", "reason", *cleaned.column_names[:6]]
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    for row in rejected.to_pylist()[:5]:
        assert lines[row["line"] - 1].startswith(f"{row['OrderID']};")
    streamed = run_anew("check", "-", stdin=path.read_bytes())
    assert streamed.returncode == 0, streamed.stderr
    assert "standard input  text with semicolons" in streamed.stdout
    page = (tmp_path / "orders.report.html").read_text()
    table = re.search(r'id="issues-extreme".*?</table>', page, re.DOTALL)
    assert table is not None
    for account in facts.bots:
        assert f'<td class="name">{account}</td>' in table[0]
    table = re.search(r'id="issues-suspicious".*?</table>', page, re.DOTALL)
    assert table is not None
    for account in facts.test_accounts:
        assert f'<td class="name">{account}</td>' in table[0]
    assert f"{facts.n_bad_rows:,} rows cannot be used" in page
    shown = re.search(r'id="cleaning-command".*?</code>', page, re.DOTALL)
    assert shown is not None
    assert "--suspect-users" in shown[0]
    # The other command leaves out all five accounts.
    assert cleaning[-1] == "--drop"
    cleaned = run(*cleaning[1:], "-p", "rank=8", cwd=tmp_path)
    assert cleaned.returncode == 0, cleaned.stderr
    rows = pacsv.read_csv(tmp_path / "orders.cleaned.csv")
    assert not {*facts.bots, *facts.test_accounts} & set(rows["Customer"].to_pylist())
    assert rows.num_rows > 0.9 * (facts.n_rows - facts.n_bad_rows - 336), "and nearly nobody else"


def test_json_agrees_with_counting_by_hand(shop: tuple[Path, ShopLog]) -> None:
    path, facts = shop
    done = run("check", str(path), "--json")
    assert done.stderr == ""
    result = json.loads(done.stdout)
    rows = [line.split(";") for line in path.read_text(encoding="utf-8-sig").splitlines()[1:]]
    good = [row for row in rows if row[1] not in ("", "NULL") and row[3] not in ("n/a", "2024-02-31 10:00:00")]
    pairs = {(row[1], row[2]) for row in good}
    clicks = [user for user, _ in pairs]
    assert result["counts"] == {
        "rows": len(rows),
        "bad_rows": len(rows) - len(good),
        "repeated_rows": len(good) - len(pairs),
        "interactions": len(pairs),
        "users": len(set(clicks)),
        "items": len({item for _, item in pairs}),
        "users_with_one_click": sum(clicks.count(user) == 1 for user in set(clicks)),
        "items_with_one_click": sum([item for _, item in pairs].count(each) == 1 for each in {i for _, i in pairs}),
    }
    assert {row["reason"]: row["count"] for row in result["bad_rows"]} == {
        "the user id is missing": facts.n_missing_customers,
        "the timestamp is not a number or a date": facts.n_bad_dates,
    }
    for group in result["bad_rows"]:
        for line, value in zip(group["places"], group["values"], strict=True):
            customer, time = rows[line - 2][1], rows[line - 2][3]
            assert customer in ("", "NULL") if value is None else time == value
    assert {row["id"] for row in result["extreme_accounts"]} == set(facts.bots)
    assert {row["id"] for row in result["suspicious_accounts"]} >= set(facts.test_accounts)
    assert {each["name"]: each["role"] for each in result["columns"]} == {
        "OrderID": None,
        "Customer": "user",
        "SKU": "item",
        "OrderedAt": "timestamp",
        "Quantity": None,
        "Weight": None,
    }
    assert result["file"] == {
        "format": "text",
        "compressed": False,
        "bytes": path.stat().st_size,
        "encoding": "utf-8-sig",
        "separator": "semicolon",
        "header": True,
    }


def test_an_ambiguous_column_is_refused_with_the_commands_that_name_it(tmp_path: Path) -> None:
    rows = [f"{user},a{user % 4},{item}" for user in range(8) for item in range(user % 3, 6)]
    (tmp_path / "log.csv").write_text("user_id,account_id,sku\n" + "\n".join(rows) + "\n")
    done = run("check", "log.csv", cwd=tmp_path)
    assert done.returncode == 3
    assert "log.csv: more than one column could be the user ('user_id', 'account_id'): name one with --user-col" in (
        done.stderr
    )
    commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  prorec check")]
    assert [command[-1] for command in commands] == ["user_id", "account_id"]
    chosen = run(*commands[1][1:], "--json", cwd=tmp_path)
    assert chosen.returncode == 0, chosen.stderr
    result = json.loads(chosen.stdout)
    assert result["counts"]["users"] == 4
    assert result["columns"][0]["reason"] == "could be the user, too: --user-col"
    assert "--user-col account_id" in result["next"][0]


def test_a_log_without_a_header_gets_its_times_in_the_next_command(tmp_path: Path) -> None:
    rows = [f"{user}\t{item}\t3\t{881250949 + user}" for user in range(8) for item in range(user % 3, 6)]
    (tmp_path / "u.data").write_text("\n".join(rows) + "\n")
    result = json.loads(run("check", "u.data", "--json", cwd=tmp_path).stdout)
    assert [column["role"] for column in result["columns"]] == ["user", "item", None, None]
    assert result["next"][0].endswith("--no-header --timestamp-col 3")
    timed = json.loads(run("check", "u.data", "--no-header", "--timestamp-col", "3", "--json", cwd=tmp_path).stdout)
    assert timed["first_time"].startswith("1997-12-04"), "seconds since 1970"


def test_parquet_and_refusals(tmp_path: Path) -> None:
    club = prorec.make_cinema(60, 50, seed=1).interactions
    table = club.to_table().rename_columns({"user": "Member", "item": "Film"})
    pq.write_table(table, tmp_path / "log.parquet")
    result = json.loads(run("check", "log.parquet", "--json", cwd=tmp_path).stdout)
    assert result["counts"]["interactions"] == len(club)
    assert result["next"][0].startswith("prorec denoise log.parquet --out log.denoised.parquet")
    (tmp_path / "bad.csv").write_text("user,item\n,1\n,2\nann,3\n")
    bad = run("check", "bad.csv", cwd=tmp_path)
    assert bad.returncode == 3
    assert "2 of 3 rows cannot be used" in bad.stderr
    for words, problem in (
        (("gone.csv",), "gone.csv: there is no such file"),
        (("log.parquet", "--skip-bad-rows"), "--skip-bad-rows has no effect here"),
        (("log.parquet", "--time-format", "day"), "--time-format must be a format such as"),
    ):
        refused = run("check", *words, cwd=tmp_path)
        assert refused.returncode == (3 if words == ("gone.csv",) else 2)
        assert problem in refused.stderr
        assert "Traceback" not in refused.stderr


def test_names_with_markup_and_one_row_are_shown_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "odd [red].csv").write_text('user,item,"[bold]x[/bold]"\n[link=x]ann[/link],7,[/]\n')
    done = run("check", "odd [red].csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "odd [red].csv" in done.stdout
    assert "[bold]x[/bold]" in done.stdout
    assert "[link=x]ann[/link]" in done.stdout
    assert shlex.split(done.stdout.splitlines()[-1])[2] == "odd [red].csv"
    table = pa.table({"user": [1], "item": [2]})
    pq.write_table(table, tmp_path / "one.parquet")
    assert run("check", "one.parquet", cwd=tmp_path).returncode == 0
