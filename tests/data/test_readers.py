from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prorec import DataWarning, InputError, Interactions, ProRec, make_cinema, read_interactions
from prorec.data import text_file
from prorec.models import WRMF

LOG = "user,item,rating,timestamp\nbob,7,4.5,100\nann,7,3,90\nbob,9,1,80\n"


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def check_log(clicks: Interactions) -> None:
    assert clicks.users.tolist() == ["ann", "bob"]
    assert clicks.items.tolist() == [7, 9]
    assert clicks.matrix.toarray().tolist() == [[1, 0], [1, 1]]
    assert clicks.columns["rating"].tolist() == [3, 4.5, 1]
    assert clicks.columns["timestamp"].tolist() == [90, 100, 80]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".CSV"])
def test_text(tmp_path: Path, ending: str) -> None:
    text = LOG.replace(",", "\t") if "tsv" in ending else LOG
    check_log(read_interactions(write_file(tmp_path, f"log{ending}", text)))


@pytest.mark.parametrize("ending", [".parquet", ".parquet.gz"])
def test_parquet(tmp_path: Path, ending: str) -> None:
    table = pa.table(
        {"user": ["bob", "ann", "bob"], "item": [7, 7, 9], "rating": [4.5, 3, 1], "timestamp": [100, 90, 80]}
    )
    pq.write_table(table, tmp_path / "plain.parquet")
    check_log(read_interactions(write_file(tmp_path, f"log{ending}", (tmp_path / "plain.parquet").read_bytes())))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("bob,7,4.5,100\nann,7,3,90\nbob,9,1,80\n", {"header": False, "rating_col": 2, "timestamp_col": 3}),
        ("7;bob;4.5;100\n7;ann;3;90\n9;bob;1;80", {"header": False, "separator": ";", "user_col": 1, "item_col": 0}),
        ("who,what,user\nbob,7,1\nann,7,1\nbob,9,1\n", {"user_col": "who", "item_col": "what"}),
        ("who,what,user\nbob,7,1\nann,7,1\nbob,9,1\n", {"user_col": 0, "item_col": 1}),
        ("\n\nuser,item\r\nbob,7\r\n\r\nann,7\r\nbob,9\r\n", {}),
        ("\ufeffuser,item\nbob,7\nann,7\nbob,9\n", {}),
        ('user,item,review\nbob,7,"good,\nvery"\nann,7,""\nbob,9,"a ""b"" c"\n', {}),
        ("user, item\rbob,7\rann,7\rbob,9\r", {}),
        ("user,item,,\nbob,7,x,y\nann,7,x,y\nbob,9,x,y\n", {}),
    ],
)
def test_shapes_of_text(tmp_path: Path, text: str, options: dict[str, Any]) -> None:
    clicks = read_interactions(write_file(tmp_path, "log.csv", text), **options)
    assert clicks.users.tolist() == ["ann", "bob"]
    assert clicks.items.tolist() == [7, 9]
    assert clicks.matrix.toarray().tolist() == [[1, 0], [1, 1]]


def test_the_types_of_ids(tmp_path: Path) -> None:
    plain = write_file(tmp_path, "plain.csv", "user,item\n1,10\n2,20\n")
    assert read_interactions(plain).users.tolist() == [1, 2]
    assert read_interactions(plain, ids="text").users.tolist() == ["1", "2"]
    padded = write_file(tmp_path, "padded.csv", "user,item\n007,10\n7,20\n")
    assert read_interactions(padded).users.tolist() == ["007", "7"], "leading zeros are part of an id"
    dates = write_file(tmp_path, "dates.csv", "user,item\n2024-01-01,true\n2024-01-02,false\n")
    assert read_interactions(dates).users.tolist() == ["2024-01-01", "2024-01-02"]
    assert read_interactions(dates).items.tolist() == ["false", "true"]
    huge = write_file(tmp_path, "huge.csv", f"user,item\n{10**30},1\n5,1\n")
    assert read_interactions(huge).users.tolist() == [str(10**30), "5"]
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "p.parquet")
    assert read_interactions(tmp_path / "p.parquet", ids="text").users.tolist() == ["1"]
    with pytest.raises(InputError, match="ids must be one of"):
        read_interactions(plain, ids="int")  # type: ignore[arg-type]


def test_types_that_change_below_the_first_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_HEAD_BYTES", 64)
    rows = [f"{at},{at % 7},{at}" for at in range(100)]
    late = write_file(tmp_path, "late.csv", "\n".join(["user,item,timestamp", *rows, "x9,1,5", "3,9,1.5"]))
    clicks = read_interactions(late)
    assert "x9" in clicks.users
    assert clicks.n_users == 101
    assert clicks.columns["timestamp"].max() == 99


@pytest.mark.parametrize("odd", ["007", "0x7", " 7", "7 ", "\t7", "7\t", "+7", "-0", '"007"'])
def test_ids_are_never_merged_however_late_the_odd_one_comes(tmp_path: Path, odd: str) -> None:
    rows = [f"{100_000 + at},{at % 50}" for at in range(120_000)]
    path = write_file(tmp_path, "log.csv", "\n".join(["user,item", *rows, "7,1", f"{odd},1"]))
    assert path.stat().st_size > text_file._HEAD_BYTES
    clicks = read_interactions(path)
    assert clicks.n_users == 120_002
    assert odd.strip('"') in clicks.users


def test_large_integers_and_zero_padded_other_columns_stay_integers(tmp_path: Path) -> None:
    path = write_file(tmp_path, "log.csv", f"user,item,note\n{2**63 - 1},5,007\n{10**18},6, x\n")
    assert read_interactions(path).users.tolist() == [10**18, 2**63 - 1]


def test_quotes_that_never_close_are_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, "log.tsv", 'user\titem\ttitle\n1\t10\tUp\n2\t11\t"Heroes\n3\t12\tBrazil\n')
    with pytest.raises(InputError, match=r"log\.tsv: line 3: a quotation mark is opened and never closed"):
        read_interactions(path)
    old_mac = write_file(tmp_path, "mac.csv", 'user,item,title\r1,2,"a\r3,4,b\r5,6,c\r')
    with pytest.raises(InputError, match="line 2: a quotation mark is opened and never closed"):
        read_interactions(old_mac)
    literal = write_file(tmp_path, "size.csv", 'user,item,size\n1,10,5"\n2,11,x\n')
    assert len(read_interactions(literal)) == 2, "inside a field it is a character like any other"
    long = write_file(tmp_path, "long.csv", f'user,item,text\n1,10,"{"x" * 200_000}"\n2,11,"a\nb"\n')
    assert len(read_interactions(long)) == 2


@pytest.mark.parametrize("n_rows", [200, 20_000])
def test_quotes_that_swallow_rows_are_pointed_out(tmp_path: Path, n_rows: int) -> None:
    stray = (n_rows - 100, n_rows - 50)
    rows = [f"{at}\t{at}\t{'*' if at in stray else ''}film" for at in range(n_rows)]
    path = write_file(tmp_path, "log.tsv", "\n".join(["user\titem\ttitle", *rows]).replace("*", '"') + "\n")
    with pytest.warns(DataWarning, match=f"in quotes from line {stray[0] + 2} on looks like rows of its own"):
        read_interactions(path)


def test_line_breaks_in_quotes_and_long_lines_far_down(tmp_path: Path) -> None:
    rows = [f"{at},{at % 50},plain" for at in range(100_000)]
    late = write_file(tmp_path, "late.csv", "\n".join(["user,item,text", *rows, '7,9,"two\nlines"', "8,9,x"]))
    assert len(read_interactions(late)) == 100_002
    wide = write_file(tmp_path, "wide.csv", f"user,item,text\n1,2,{'x' * 3_500_000}\n3,4,y\n")
    assert len(read_interactions(wide)) == 2


@pytest.mark.parametrize("padding", range(12))
def test_the_first_lines_may_be_cut_anywhere(tmp_path: Path, padding: int) -> None:
    pad = "x" * padding
    quoted = [f'{at % 1000},"{pad}\nsecond line of the title",{at}' for at in range(40_000)]
    path = write_file(tmp_path, "quoted.csv", "\n".join(["user,title,item", *quoted]))
    assert path.stat().st_size > text_file._HEAD_BYTES
    assert read_interactions(path).users.tolist() == list(range(1000))
    old_mac = write_file(
        tmp_path, "mac.csv", "\r".join(["user,item,t", *(f"{at % 1000},{at},{pad}" for at in range(130_000))])
    )
    assert old_mac.stat().st_size > text_file._HEAD_BYTES
    assert len(read_interactions(old_mac)) == 130_000


def test_a_name_that_ends_in_gz_does_not_make_a_file_gzipped(tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_text(LOG)
    check_log(read_interactions(tmp_path / "log.csv.gz"))


def test_hints_for_the_usual_mistakes(tmp_path: Path) -> None:
    bare = write_file(tmp_path, "bare.tsv", "1\t10\t5\n2\t11\t4\n")
    with pytest.warns(DataWarning, match="the first line was taken for names, but has 1, 10, 5 in it"):
        read_interactions(bare, header=True, user_col=0, item_col=1, rating_col=2)
    names = write_file(tmp_path, "names.csv", "ann,tea\nbob,milk\n")
    with pytest.raises(InputError, match=r"no column is called 'user'.*If the first line is data, give header=False"):
        read_interactions(names)
    other = write_file(tmp_path, "other.csv", "user;item\n1;2\n")
    with pytest.raises(InputError, match="there is one column only, 'user;item': is the separator ';'"):
        read_interactions(other, separator=",")
    with pytest.raises(InputError, match="one ASCII character"):
        read_interactions(other, separator="é")
    blanks = write_file(tmp_path, "blanks.txt", "user item\n1 2\n")
    with pytest.raises(InputError, match=r"no comma, semicolon, tab or pipe .* 'user item': give the separator"):
        read_interactions(blanks)
    assert read_interactions(blanks, separator=" ").users.tolist() == [1]


def test_a_large_file_is_the_same_as_its_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 3000, (300_000, 2)), axis=0)
    rng.shuffle(pairs)
    path = write_file(tmp_path, "log.csv", "user,item\n" + "\n".join(f"u{u},{i}" for u, i in pairs))
    clicks = read_interactions(path)
    assert path.stat().st_size > 2 * text_file._HEAD_BYTES, "more than one block"
    got = {(u, i) for u, i in zip(clicks.users[clicks.user_codes], clicks.items[clicks.item_codes], strict=True)}
    assert got == {(f"u{u}", i) for u, i in pairs.tolist()}


def test_rules_for_duplicates(tmp_path: Path) -> None:
    path = write_file(tmp_path, "log.csv", "user,item\n1,1\n1,1\n1,1\n")
    assert read_interactions(path).matrix.toarray().tolist() == [[1]], "a repeated click counts once"
    with pytest.warns(DataWarning, match="2 rows repeat"):
        assert read_interactions(path, duplicates="sum").matrix.toarray().tolist() == [[3]]
    with pytest.raises(InputError, match=r"log\.csv: 2 rows repeat"):
        read_interactions(path, duplicates="error")
    huge = write_file(tmp_path, "huge.csv", "user,item,weight\n1,1,3e38\n1,1,3e38\n")
    with pytest.warns(DataWarning), pytest.raises(InputError, match=r"huge\.csv: the weight at position 0 is inf"):
        read_interactions(huge, duplicates="sum")


def test_a_log_with_repeated_clicks_works_by_default_from_file_to_recommendation(tmp_path: Path) -> None:
    log = make_cinema(120, 60, seed=3).interactions.to_table()
    repeated = pa.concat_tables([log, log.slice(0, 500), log.slice(0, 200)]).select(["user", "item"])
    pq.write_table(repeated, tmp_path / "log.parquet")
    clicks = read_interactions(tmp_path / "log.parquet")
    assert len(clicks) == log.num_rows
    assert clicks.matrix.data.max() == 1, "a repeated click counts once"
    assert clicks.equals(Interactions.from_table(repeated))
    model = WRMF(rank=4, sweeps=2).fit(clicks)
    denoiser = ProRec(WRMF(rank=4, sweeps=2), noise_method="plan").fit(clicks)
    for recommender in (model, denoiser):
        assert recommender.recommend(clicks.users[:5], k=3).item_positions.shape == (5, 3)
    assert denoiser.weights_.nnz == len(clicks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,item\n1,2\n", r"log\.csv: no column is called 'user'.*The columns are 'who', 'item'"),
        ("user,item,rating\n1,2,5\n\n3,4,good\n", r"log\.csv: line 4: the rating 'good' is not a number"),
        ('user,item,rating,t\n1,2,5,"a\nb"\n3,4,good,c\n', r"log\.csv: line 4: the rating 'good' is not a number"),
        ("user,item,rating\n1,2,5\n3,4,\n", r"line 3: the rating is missing"),
        ("user,item,rating\n1,2,nan\n", r"line 2: the rating 'nan' is not a finite number"),
        ("user,item,weight\n1,2,-0.5\n", r"line 2: the weight '-0.5' is negative"),
        ("user,item,weight\n1,2,1\n1,3,inf\n", r"line 3: the weight 'inf' is not a finite number"),
        ("user,item,timestamp\n1,2,5\n1,3,soon\n", r"line 3: the timestamp 'soon' is not a number or a date"),
        ("user,item,timestamp\n1,2,2024-05-01\n1,3,soon\n", r"line 3: the timestamp 'soon' is not a number or a date"),
        ("user,item\n1,2\n,3\n", r"line 3: the user id is missing"),
        ("user,item\na,2\nb,\n", r"line 3: the item id is missing"),
        ("user,item\na,2\nNaN,3\n", r"line 3: the user id is missing"),
        ("user,item\n1,2\n1,2,3\n", r"line 3: 3 columns instead of 2"),
        ("user,item\n1,2\n1\n", r"line 3: 1 columns instead of 2"),
        ("user,item\n", "a header but no rows"),
        ("user,item", "a header but no rows"),
        ("user,item,rating\n1,2,1_000\n", r"line 2: the rating '1_000' is not a number"),
        ("\n \n", "nothing in it"),
        ("\ufeff", "nothing in it"),
        ("", "the file is empty"),
    ],
)
def test_bad_text_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_interactions(write_file(tmp_path, "log.csv", text))


def test_bad_lines_far_down_are_found_in_a_gzipped_file_too(tmp_path: Path) -> None:
    rows = [f"u{at},{at % 7},3" for at in range(150_000)]
    rows[140_000] = "u1,2,x"
    path = write_file(tmp_path, "log.csv.gz", "user,item,rating\n" + "\n".join(rows))
    with pytest.raises(InputError, match=r"log\.csv\.gz: line 140002: the rating 'x' is not a number"):
        read_interactions(path)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(4000)
    whole = gzip.compress(("user,item\n" + "\n".join(f"{at},{at}" for at in range(50_000))).encode())
    for name, content, message in (
        ("cut.csv.gz", whole[: len(whole) // 2], "the gzip file is broken or cut short"),
        ("cut.parquet.gz", whole[: len(whole) // 2], "the gzip file is broken or cut short"),
        ("flipped.csv.gz", whole[:2000] + b"\xff" * 50 + whole[2050:], "the gzip file is broken or cut short"),
        ("noise.csv", noise, "the file is binary"),
        ("noise.csv.gz", b"\x1f\x8b" + noise, "the gzip file is broken or cut short"),
        (
            "latin.csv",
            "user,item\nJosé,1\n".encode("latin-1"),
            "this is not UTF-8 text: 1 line is not, such as line 2, which is 'José,1' if .*iconv",
        ),
        ("noise.parquet", noise, "not a parquet file"),
        ("wide.csv", "user,item\n1,2\n".encode("utf-16-le"), "UTF-16 with a byte order mark"),
        ("table.csv", b"PK\x03\x04" + noise, "a spreadsheet or a zip archive"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_interactions(path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv: this is a directory"):
        read_interactions(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="File name too long"):
        read_interactions(tmp_path / ("a" * 300 + ".csv"))
    with pytest.raises(InputError, match=r"gone\.csv: there is no such file"):
        read_interactions(tmp_path / "gone.csv")
    with pytest.raises(InputError, match="must be one ASCII character, got '::'"):
        read_interactions(tmp_path / "latin.csv", separator="::")


@pytest.mark.filterwarnings("ignore::prorec.DataWarning")
@pytest.mark.parametrize("seed", range(120))
def test_garbage_is_read_or_refused_but_never_shows_a_traceback_of_its_own(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    alphabet = rng.choice([b'ab,\n"', b"1,2\n\t", bytes(range(1, 256)), b'"\n,\r', b"0123,,\n\n", b'12,,\n\n"'])
    body = bytes(rng.choice(alphabet) for _ in range(rng.choice([3, 40, 300, 200_000])))
    start = rng.choice([b"", b"user,item\n", b"user,item,rating\n", b"\xef\xbb\xbf"])
    path = write_file(tmp_path, "log.csv", start + body)
    for header in (True, False):
        try:
            clicks = read_interactions(path, header=header)
        except InputError:
            continue
        assert len(clicks) >= 1
        assert np.isfinite(clicks.matrix.data).all()


def test_bad_parquet_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": [1, None], "item": [1, 2]}), path)
    with pytest.raises(InputError, match=r"log\.parquet: row 2: the user id is missing"):
        read_interactions(path)
    pq.write_table(pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())}), path)
    with pytest.raises(InputError, match="no rows"):
        read_interactions(path)
