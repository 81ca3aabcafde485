"""How long this project and others take to write one Parquet file as a tree of partitions.

`pip install -r benches/compare/requirements.txt`, then `python3 benches/compare/writing.py --dfp target/release/dfp`.
The machine should have nothing else to do. The source has no order by partition: each row belongs to another
partition than the row before it.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROJECT = "this project"
MIB = 1 << 20


def main():
    options = arguments()
    if options.write:
        return PEERS[options.write](*options.paths, options.partitions)
    if options.check:
        return print(json.dumps(read_back(options.check)))
    if not os.access(options.dfp, os.X_OK):
        sys.exit(f"--dfp {options.dfp} is no program; build it with `cargo build --release --bin dfp`")
    if importlib.util.find_spec("duckdb") is None:
        sys.exit("duckdb, which reads the trees back, is missing; pip install -r benches/compare/requirements.txt")
    options.dfp = options.dfp.resolve()
    # Some keep a file open for each partition.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="writing-", dir=options.scratch) as folder:
        runs = measure_all(options, Path(folder))
    print(report(options, runs))
    if options.json:
        settings = {"rows": options.rows, "partitions": options.partitions, "cores": cores()}
        everything = settings | {"versions": versions(options), "runs": runs}
        options.json.write_text(json.dumps(everything, indent=2) + "\n")
    return 1 if any(run["engine"] == PROJECT and "error" in run for run in runs) else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dfp", type=Path, help="the shell of this project, a release build")
    parser.add_argument("--rows", type=positive, default=36_000_000)
    parser.add_argument("--partitions", type=positive, default=1825)
    parser.add_argument("--runs", type=positive, default=3)
    parser.add_argument("--timeout", type=positive, default=600, help="seconds for one run [default: %(default)s]")
    parser.add_argument("--scratch", type=Path, help="where to write [default: the folder for temporary files]")
    parser.add_argument("--json", type=Path, help="a file for the numbers of all runs")
    # What the program starts itself with.
    parser.add_argument("--write", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--check", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.write or options.check):
        if options.dfp is None or options.paths:
            parser.error("--dfp PATH is required, and nothing without an option")
        if options.partitions > options.rows:
            parser.error(f"--partitions {options.partitions} is more than --rows {options.rows}; give fewer")
    return options


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is less than 1")
    return number


# Each writes `source` below `target`, with the threads that it takes by itself, without an order of rows to keep.


def dfp_command(program, source, target):
    statements = [
        f"CREATE EXTERNAL TABLE source STORED AS PARQUET LOCATION '{source}'",
        "CREATE EXTERNAL TABLE t (id BIGINT, item BIGINT, price DOUBLE, day BIGINT) STORED AS PARQUET"
        f" PARTITIONED BY (day) LOCATION '{target}/'"
        " OPTIONS ('connector' 'filesystem', 'parquet.compression' 'snappy')",
        "INSERT INTO t SELECT * FROM source",
    ]
    return [program, "--quiet", "--command", "; ".join(statements)]


def write_datafusion(source, target, _):
    import datafusion

    context = datafusion.SessionContext()
    context.register_parquet("source", source)
    context.sql(
        f"COPY source TO '{target}/' STORED AS PARQUET PARTITIONED BY (day) OPTIONS ('format.compression' 'snappy')"
    ).collect()


def write_duckdb(source, target, _, open_files=None):
    import duckdb

    duckdb.execute(f"SET threads = {cores()}")
    duckdb.execute("SET preserve_insertion_order = false")
    if open_files:
        duckdb.execute(f"SET partitioned_write_max_open_files = {open_files}")
    duckdb.execute(
        f"COPY (SELECT * FROM read_parquet('{source}')) TO '{target}'"
        " (FORMAT parquet, COMPRESSION snappy, PARTITION_BY (day), OVERWRITE_OR_IGNORE)"
    )


def write_duckdb_all_open(source, target, partitions):
    write_duckdb(source, target, partitions, open_files=partitions)


def write_polars(source, target, _):
    import polars as pl

    # The others leave the partition column out of the files.
    tree = pl.PartitionBy(target, key="day", include_key=False)
    pl.scan_parquet(source).sink_parquet(
        tree, compression="snappy", maintain_order=False, mkdir=True, engine="streaming"
    )


PEERS = {
    "DataFusion, COPY": write_datafusion,
    "DuckDB": write_duckdb,
    "DuckDB, all files open": write_duckdb_all_open,
    "Polars, streaming": write_polars,
}


def measure_all(options, folder):
    source = folder / "source.parquet"
    make_source(options, source)
    runs = []
    engines = [PROJECT, *PEERS]
    given_up = set()
    for number in range(options.runs):
        # No engine is always the first one.
        first = number % len(engines)
        for engine in engines[first:] + engines[:first]:
            if engine in given_up:
                continue
            run = {"engine": engine, "round": number + 1}
            try:
                run |= measure(options, engine, source, folder / "tree")
            except RunError as error:
                run["error"] = str(error)
                given_up.add(engine)
            runs.append(run)
            print(run, file=sys.stderr, flush=True)
    return runs


class RunError(Exception):
    """Why a run has no numbers."""


def make_source(options, source):
    query = (
        "SELECT value AS id, value % 1000 AS item, CAST(value % 97 AS DOUBLE) AS price,"
        f" 18000 + (value * 7919) % {options.partitions} AS day FROM range(0, {options.rows})"
    )
    copy = f"COPY ({query}) TO '{source}' STORED AS PARQUET OPTIONS ('format.compression' 'snappy')"
    done = subprocess.run([options.dfp, "--quiet", "--command", copy], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the source {source} could not be made: {done.stderr.strip()}")


def measure(options, engine, source, target):
    """Writes the tree once, looks whether it is right, and deletes it."""
    if engine == PROJECT:
        command = dfp_command(options.dfp, source, target)
    else:
        partitions = ["--partitions", str(options.partitions)]
        command = [sys.executable, __file__, "--write", engine, *partitions, source, target]
    target.mkdir()
    # What was written before is not to be waited for in this run.
    os.sync()
    try:
        numbers = run_timed(command, options.timeout)
        return numbers | check(options, target)
    finally:
        shutil.rmtree(target)


def run_timed(command, timeout):
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        late = threading.Timer(timeout, process.kill)
        late.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            late.cancel()
            process.kill()
        errors.seek(0)
        message = errors.read().decode(errors="replace").strip().splitlines()
    if wall >= timeout:
        raise RunError(f"took more than {timeout} s")
    if process.returncode != 0:
        raise RunError(f"exit code {process.returncode}: {message[-1] if message else 'no message'}")
    # Linux counts the peak in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * unit}


def check(options, target):
    """The size of a tree that has the right rows."""
    command = [sys.executable, __file__, "--check", target]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunError(f"cannot be read back: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    found = json.loads(done.stdout)
    days = options.partitions // math.gcd(options.partitions, 7919)
    expected = {"rows": options.rows, "sum": options.rows * (options.rows - 1) // 2, "days": days}
    for what, value in expected.items():
        if found[what] != value:
            raise RunError(f"wrote something else: {what} {found[what]} instead of {value}")
    files = [file for file in target.rglob("*") if file.is_file()]
    return {
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "codec": found["codec"],
    }


def read_back(target):
    import duckdb

    files = f"'{target}/**/*.parquet'"
    rows, total, days = duckdb.execute(
        f"SELECT count(*), sum(id), count(DISTINCT day) FROM read_parquet({files}, hive_partitioning = true)"
    ).fetchone()
    example = next(target.rglob("*.parquet"))
    codecs = duckdb.execute(f"SELECT DISTINCT compression FROM parquet_metadata('{example}')").fetchall()
    return {"rows": rows, "sum": int(total), "days": days, "codec": ", ".join(sorted(codec for (codec,) in codecs))}


def report(options, runs):
    version = ", ".join(f"{name} {number}" for name, number in versions(options).items())
    lines = [
        f"{options.rows:,} rows into {options.partitions:,} partitions, {options.runs} rounds on {cores()} cores of"
        f" {platform.machine()}; {version}.",
        "",
        "Median (min to max). Seconds are those of a process from its start to its end. The ratio is that of seconds to"
        " those of this project in the same round, the median of all rounds. All were asked for snappy, and for no"
        " order of rows; the partition column is in no file. `DuckDB` keeps 100 files open, its default.",
        "",
        "| | seconds | CPU seconds | peak MiB | files | MiB written | codec | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    own = {run["round"]: run["wall"] for run in runs if run["engine"] == PROJECT and "error" not in run}
    for engine in [PROJECT, *PEERS]:
        good = [run for run in runs if run["engine"] == engine and "error" not in run]
        cells = [engine]
        if good:
            cells += [
                spread([run["wall"] for run in good], 2),
                spread([run["cpu"] for run in good], 2),
                spread([run["memory"] / MIB for run in good], 0),
                spread([run["files"] for run in good], 0),
                spread([run["bytes"] / MIB for run in good], 1),
                ", ".join(sorted({run["codec"] for run in good})),
            ]
            ratios = [run["wall"] / own[run["round"]] for run in good if run["round"] in own]
            cells.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        else:
            cells += [""] * 7
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        f"\n{run['engine']}, round {run['round']}, was given up: {run['error']}" for run in runs if "error" in run
    ]
    return "\n".join(lines)


def spread(numbers, digits):
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(numbers), statistics.median(numbers), max(numbers)))
    return middle if low == high else f"{middle} ({low} to {high})"


def versions(options):
    own = subprocess.run([options.dfp, "--version"], capture_output=True, text=True).stdout.strip()
    found = {PROJECT: own}
    for package in ["datafusion", "duckdb", "polars"]:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


if __name__ == "__main__":
    sys.exit(main())
