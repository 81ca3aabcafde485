"""Runs all cases both ways, prints a table of them, and what differs."""

import dataclasses
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
from cases import CASES, DEVIATIONS
from engines import Dfp, DuckDb, Overwritten, Polars, PyArrow

# Rows of each kind that are shown for a case.
SHOWN = 5


def main(program):
    dfp, others = Dfp(program), [DuckDb(), Polars(), PyArrow()]
    problems = []
    print(f"{'writer':12}{'reader':8}{'case':18}{'rows':>5}  ok")
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        for case in CASES:
            pairs = [(dfp, [dfp, *others]), *((other, [dfp]) for other in others)]
            if case.corrections is not None:
                pairs += [(Overwritten(other, dfp), [dfp, *others]) for other in others]
            for writer, readers in pairs:
                location = Path(folder) / f"{case.name} {writer.name}"
                written = attempt(writer.write, case, location)
                for reader in readers:
                    seen = written if isinstance(written, Exception) else attempt(reader.read, case, location)
                    verdict, differences = judge(writer, reader, case, location, seen)
                    count = "" if isinstance(seen, Exception) else seen.num_rows
                    print(f"{writer.name:12}{reader.name:8}{case.name:18}{count:>5}  {verdict}", flush=True)
                    if differences:
                        title = f"{case.name}: written by {writer.name}, read by {reader.name}"
                        problems.append("\n  ".join([title, *differences]))
    for deviation in DEVIATIONS:
        if deviation.case not in {case.name for case in CASES}:
            problems.append(f"cases.py: a deviation of the case '{deviation.case}', which is not there; remove it")
    if problems:
        print(f"\n{len(problems)} of the comparisons failed\n", *problems, sep="\n")
    return 1 if problems else 0


def attempt(action, *arguments):
    """What the action returns, or the error, which some deviations expect."""
    try:
        return action(*arguments)
    except Exception as error:
        return error


def judge(writer, reader, case, location, seen):
    """What the table says of a comparison, and what is wrong with it, as lines."""
    differences = compare(case.rows, seen)
    deviations = [each for each in DEVIATIONS if each.concerns(writer.name, reader.name, case.name)]
    if not deviations:
        return ("NO" if differences else "yes"), differences
    [deviation] = deviations
    if not differences:
        differences = [f"agrees now; remove the deviation '{deviation.reason}' from cases.py"]
    elif deviation.reads is not None:
        differences = compare(renamed(case, deviation.reads), seen)
    elif isinstance(seen, Exception) and deviation.fails in str(seen):
        differences = []
        if deviation.as_text:
            case = as_text(case)
            differences = compare(case.rows, attempt(reader.read, case, location))
    else:
        differences.insert(0, f"expected an error with '{deviation.fails}'")
    return ("NO" if differences else f"no: {deviation.reason}"), differences


def as_text(case):
    """A case with text in its partition columns."""
    rows = case.rows
    for key in case.keys:
        rows = rows.set_column(rows.column_names.index(key), key, rows[key].cast(pa.string()))
    return dataclasses.replace(case, table=rows, corrections=None)


def renamed(case, texts):
    """The rows of a case with other texts in its partition columns."""
    rows = case.rows
    for key in case.keys:
        values = [texts.get(value, value) for value in rows[key].to_pylist()]
        rows = rows.set_column(rows.column_names.index(key), key, pa.array(values, rows[key].type))
    return rows


def compare(expected, seen):
    """What differs, as lines: types, then rows, each as often as it is there."""
    if isinstance(seen, Exception):
        return [f"error: {seen}"]
    if set(seen.column_names) != set(expected.column_names):
        return [f"columns {seen.column_names} instead of {expected.column_names}"]
    differences = []
    for field in expected.schema:
        type_ = plain(seen.schema.field(field.name).type)
        if type_ != field.type:
            differences.append(f"column {field.name}: {type_} instead of {field.type}")
    if differences:
        return differences
    wanted, found = multiset(expected), multiset(seen.select(expected.column_names))
    for what, rows in [("missing", wanted - found), ("unexpected", found - wanted)]:
        listed = list(rows.elements())
        differences += [f"{what}: {row}" for row in listed[:SHOWN]]
        if len(listed) > SHOWN:
            differences.append(f"{what}: {len(listed) - SHOWN} more")
    return differences


def plain(type_):
    """The encodings of text in Arrow are one type."""
    return pa.string() if type_ in (pa.large_string(), pa.string_view()) else type_


def multiset(table):
    # Python's own time stamps have no nanoseconds.
    columns = [
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column for column in table.columns
    ]
    return Counter(zip(*(column.to_pylist() for column in columns)))
