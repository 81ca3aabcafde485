"""The tables that are written and read, and what engines are known to do otherwise."""

import datetime
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

DEFAULT_NAME = "__HIVE_DEFAULT_PARTITION__"

AWKWARD_TEXTS = [
    "plain",
    "two words",
    " blanks around ",
    "a=b",
    "=",
    "a/b",
    "/",
    "50%",
    "%20",
    "a%2Fb",
    "a+b",
    "12:30",
    "it's",
    'say "yes"',
    "back\\slash",
    "tab\tand\nline",
    "..",
    ".",
    "...",
    ".hidden",
    "_hidden",
    "{a}[b]^#~|<c>,;!$&@`",
    "grün",
    "日本 🎉",
    "e\u0301",
    "\u00a0",
    "007",
    "1e3",
    "-0",
    "2024-01-01",
    "true",
    "NULL",
    "null",
    "None",
    "nan",
    "x" * 200,
    None,
]


@dataclass(frozen=True)
class Case:
    """A table with its last columns as partition columns."""

    name: str
    table: pa.Table
    keys: list[str]
    # What `INSERT OVERWRITE` writes afterwards; other engines write what is there in the end.
    corrections: pa.Table | None = None
    format: str = "parquet"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self):
        """What is in the table in the end."""
        if self.corrections is None:
            return self.table
        replaced = set(zip(*(self.corrections[key].to_pylist() for key in self.keys)))
        partitions = zip(*(self.table[key].to_pylist() for key in self.keys))
        kept = self.table.filter(pa.array([partition not in replaced for partition in partitions]))
        return pa.concat_tables([kept, self.corrections])


def table(first_id, **keys):
    """Two rows for each partition, with columns of the files in front of those of the partitions."""
    columns = {name: pa.concat_arrays([values, values]) for name, values in keys.items()}
    ids = range(first_id, first_id + len(next(iter(columns.values()))))
    notes = [f'note "{i}", {i % 3}' if i % 5 else None for i in ids]
    amounts = [Decimal(i) / 100 - 1 for i in ids]
    files = {
        "id": pa.array(ids, pa.int64()),
        "note": pa.array(notes, pa.string()),
        "amount": pa.array(amounts, pa.decimal128(10, 2)),
    }
    return pa.table(files | columns)


def one_key(name, values, **more):
    return Case(name, table(0, key=values), ["key"], **more)


def two_keys(first_id, days, shops):
    return table(first_id, day=dates(days), shop=texts(shops))


def texts(values):
    return pa.array(values, pa.string())


def dates(values):
    return pa.array([value and datetime.date.fromisoformat(value) for value in values], pa.date32())


INTS = pa.array([0, 7, -(2**31), 2**31 - 1, None], pa.int32())
BIGINTS = pa.array([0, 7, -(2**63), 2**63 - 1, None], pa.int64())
DOUBLES = pa.array([0.0, -0.1, 1e20, 1e-7, 1 / 3, None], pa.float64())
BOOLEANS = pa.array([True, False, None])
DATES = dates(["2024-06-01", "1969-12-31", "0001-01-01", "9999-12-31", None])
DECIMALS = pa.array([*map(Decimal, ["1.50", "-0.01", "0.00", "99999999.99"]), None], pa.decimal128(10, 2))
# Without a time of day, before 1970, with milliseconds, with nanoseconds.
TIMESTAMPS = pa.array([0, -1, 1_717_245_296_123_000_000, 1_717_245_296_123_456_789, None], pa.timestamp("ns"))

DAYS = ["2024-06-01", "2024-06-01", "2024-06-02", None, None, "2024-06-03"]
SHOPS = ["a/b", None, "c d", "e", None, "f"]

CASES = [
    one_key("texts", texts(AWKWARD_TEXTS)),
    one_key("wildcards", texts(["*", "a?b*c", None])),
    one_key("text like NULL", texts(["plain", DEFAULT_NAME])),
    one_key("empty text", texts(["plain", ""])),
    one_key("long unicode", texts(["ü" * 100])),
    one_key("INT", INTS),
    one_key("BIGINT", BIGINTS),
    one_key("DOUBLE", DOUBLES),
    one_key("BOOLEAN", BOOLEANS),
    one_key("DATE", DATES),
    one_key("DECIMAL", DECIMALS),
    one_key("TIMESTAMP", TIMESTAMPS),
    Case("two levels", two_keys(0, DAYS, SHOPS), ["day", "shop"]),
    Case(
        "two, overwritten",
        two_keys(0, DAYS, SHOPS),
        ["day", "shop"],
        corrections=two_keys(100, ["2024-06-01", None, "2024-06-09"], ["a/b", None, "new"]),
    ),
    one_key(
        "texts, overwritten",
        texts(AWKWARD_TEXTS),
        corrections=table(100, key=texts([*AWKWARD_TEXTS[::2], "new"])),
    ),
    Case("colon in a name", table(0, **{"a:b": INTS}), ["a:b"]),
    Case(
        "file columns",
        pa.table(
            {
                "bigint": BIGINTS,
                "double": pa.array([0.5, float("inf"), -1e300, 5e-324, None]),
                "boolean": pa.array([True, False, None, True, None]),
                "date": DATES,
                "decimal": DECIMALS,
                "timestamp": TIMESTAMPS,
                "text": texts(["", " ", "ü\n", DEFAULT_NAME, None]),
                "key": INTS,
            }
        ),
        ["key"],
    ),
    one_key(
        "many partitions", pa.array(range(150), pa.int32()), options={"sink.max-open-partitions": "10"}
    ),
    one_key(
        "many files",
        pa.array([1, 2] * 10, pa.int32()),
        options={"sink.rolling-policy.row-count": "3", "parquet.compression": "zstd(3)"},
    ),
    one_key("CSV", texts(AWKWARD_TEXTS), format="csv", options={"has_header": "true"}),
]


@dataclass(frozen=True)
class Deviation:
    """What differs, and why. It is checked like everything else: one that no longer differs has to go."""

    writer: str
    reader: str  # or "*"
    case: str
    reason: str
    # The texts of partition columns that are read as something else.
    reads: dict[str, str | None] | None = None
    # A part of the error, where the case cannot be written, or not be read.
    fails: str | None = None
    # Whether it can be read with partition columns that are declared as text.
    as_text: bool = False

    def concerns(self, writer, reader, case):
        return self.writer == writer and self.reader in (reader, "*") and self.case == case


DEVIATIONS = [
    Deviation("dfp", "Polars", "text like NULL", "decodes before it looks for NULL", reads={DEFAULT_NAME: None}),
    Deviation("dfp", "pyarrow", "text like NULL", "decodes before it looks for NULL", reads={DEFAULT_NAME: None}),
    Deviation("Polars", "dfp", "text like NULL", "is written like NULL", reads={DEFAULT_NAME: None}),
    Deviation("pyarrow", "dfp", "text like NULL", "is written like NULL", reads={DEFAULT_NAME: None}),
    Deviation("dfp", "*", "empty text", "is refused: Hive writes it like NULL", fails="empty text"),
    Deviation("DuckDB", "dfp", "long unicode", "escapes letters: 600 bytes", fails="Failed to create directory"),
    Deviation("Polars", "dfp", "long unicode", "escapes letters: 600 bytes", fails="File name too long"),
    Deviation("pyarrow", "dfp", "long unicode", "escapes letters: 600 bytes", fails="Cannot create directory"),
    Deviation("dfp", "DuckDB", "colon in a name", "does not decode names", fails="Unknown hive_type"),
    Deviation("dfp", "Polars", "colon in a name", "does not decode names", fails="a%3Ab"),
    Deviation("dfp", "pyarrow", "DECIMAL", "reads no decimals from names", fails="decimal128", as_text=True),
    Deviation("dfp", "Polars", "CSV", "finds partitions of Parquet and IPC only", fails="hive_partitioning"),
]
