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
    "{a}[b]*?^#~|<c>,;!$&@`",
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


def one_key(name, type_, values, **more):
    return Case(name, table(0, key=pa.array(values, type_)), ["key"], **more)


def two_keys(first_id, days, shops):
    days = [day and datetime.date.fromisoformat(day) for day in days]
    return table(first_id, day=pa.array(days, pa.date32()), shop=pa.array(shops, pa.string()))


TWO_KEYS = two_keys(0, ["2024-06-01", "2024-06-01", "2024-06-02", None, None, "2024-06-03"], ["a/b", None, "c d", "e", None, "f"])

CASES = [
    one_key("texts", pa.string(), AWKWARD_TEXTS),
    one_key("text like NULL", pa.string(), ["plain", DEFAULT_NAME]),
    one_key("empty text", pa.string(), ["plain", ""]),
    one_key("long unicode", pa.string(), ["ü" * 100]),
    one_key("INT", pa.int32(), [0, 7, -(2**31), 2**31 - 1, None]),
    one_key("BIGINT", pa.int64(), [0, 7, -(2**63), 2**63 - 1, None]),
    one_key("DOUBLE", pa.float64(), [0.0, 1.5, -0.1, 1e20, 1e-7, 1 / 3, None]),
    one_key("BOOLEAN", pa.bool_(), [True, False, None]),
    one_key(
        "DATE",
        pa.date32(),
        [datetime.date(2024, 6, 1), datetime.date(1969, 12, 31), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
    ),
    one_key("DECIMAL", pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("99999999.99"), None]),
    one_key(
        "TIMESTAMP",
        pa.timestamp("ns"),
        [0, -1, 1_717_243_200_000_000_000, 1_717_245_296_123_000_000, 1_717_245_296_123_456_789, None],
    ),
    Case("two levels", TWO_KEYS, ["day", "shop"]),
    Case(
        "overwritten",
        TWO_KEYS,
        ["day", "shop"],
        corrections=two_keys(100, ["2024-06-01", None, "2024-06-09"], ["a/b", None, "new"]),
    ),
    Case("name with colon", table(0, **{"a:b": pa.array([1, 2, None], pa.int32())}), ["a:b"]),
    one_key("many files", pa.int32(), [1, 2] * 10, options={"sink.rolling-policy.row-count": "3", "parquet.compression": "zstd(3)"}),
    one_key("CSV", pa.string(), AWKWARD_TEXTS, format="csv", options={"has_header": "true"}),
]


@dataclass(frozen=True)
class Deviation:
    """What differs for a reason outside of this project. It is checked, too: one that no longer differs has to go."""

    writer: str
    reader: str
    case: str
    reason: str
    # The texts of partition columns that are read as something else.
    reads: dict[str, str | None] | None = None
    # A part of the error, where it cannot be written or read.
    fails: str | None = None

    def concerns(self, writer, reader, case):
        return self.writer in (writer, "*") and self.reader in (reader, "*") and self.case == case


DEVIATIONS = []
