"""How each engine writes a case into a folder, and reads the folder back as an Arrow table.

Types of partition columns are declared, since names of directories do not tell a text `007` from a number.
"""

import dataclasses
import subprocess

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

SQL_TYPES = {
    pa.string(): "TEXT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.decimal128(10, 2): "DECIMAL(10, 2)",
    pa.timestamp("ns"): "TIMESTAMP",
}


class Dfp:
    name = "dfp"

    def __init__(self, program):
        self.program = program

    def write(self, case, folder):
        folder.mkdir()
        self.change("INSERT INTO", case, folder, case.table)
        if case.corrections is not None:
            self.change("INSERT OVERWRITE", case, folder, case.corrections)

    def change(self, verb, case, folder, rows):
        source = folder.with_name(f"{folder.name} {verb}.parquet")
        pq.write_table(rows, source)
        source = f"CREATE EXTERNAL TABLE source STORED AS PARQUET LOCATION '{source}'"
        self.run([self.create(case, folder), source, f"{verb} t SELECT * FROM source"])

    def read(self, case, folder):
        answer = folder.with_name(f"{folder.name} answer.parquet")
        self.run([self.create(case, folder), f"COPY (SELECT * FROM t) TO '{answer}' STORED AS PARQUET"])
        return pq.read_table(answer)

    def create(self, case, folder):
        columns = ", ".join(f'"{field.name}" {SQL_TYPES[field.type]}' for field in case.table.schema)
        keys = ", ".join(f'"{key}"' for key in case.keys)
        options = {"connector": "filesystem"} | case.options
        options = ", ".join(f"'{key}' '{value}'" for key, value in options.items())
        return (
            f"CREATE EXTERNAL TABLE t ({columns}) STORED AS {case.format} PARTITIONED BY ({keys})"
            f" LOCATION '{folder}/' OPTIONS ({options})"
        )

    def run(self, statements):
        command = [self.program, "--quiet", "--command", ";\n".join(statements)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())


class Overwritten:
    """A table that another engine has written, with corrections of this project."""

    def __init__(self, other, dfp):
        self.other, self.dfp = other, dfp
        self.name = f"{other.name}+dfp"

    def write(self, case, folder):
        self.other.write(dataclasses.replace(case, corrections=None), folder)
        self.dfp.change("INSERT OVERWRITE", case, folder, case.corrections)


class DuckDb:
    name = "DuckDB"

    def write(self, case, folder):
        with duckdb.connect() as session:
            session.register("rows", case.rows)
            keys = ", ".join(f'"{key}"' for key in case.keys)
            session.execute(f"COPY rows TO '{folder}' (FORMAT {case.format}, PARTITION_BY ({keys}))")

    def read(self, case, folder):
        def types(columns):
            names = {name: SQL_TYPES[case.table.schema.field(name).type] for name in columns}
            # DuckDB's TIMESTAMP has microseconds.
            return {name: "TIMESTAMP_NS" if sql == "TIMESTAMP" else sql for name, sql in names.items()}

        options = {"hive_partitioning": True, "hive_types": types(case.keys)}
        if case.format == "csv":
            options["types"] = types(case.table.column_names[: -len(case.keys)])
        options = ", ".join(f"{name} = {value}" for name, value in options.items())
        with duckdb.connect() as session:
            query = f"SELECT * FROM read_{case.format}('{folder}/**/*.{case.format}', {options})"
            return session.sql(query).to_arrow_table()


class Polars:
    name = "Polars"

    def write(self, case, folder):
        rows = pl.from_arrow(case.rows).lazy()
        sink = {"parquet": rows.sink_parquet, "csv": rows.sink_csv}[case.format]
        sink(pl.PartitionBy(folder, key=case.keys), mkdir=True)

    def read(self, case, folder):
        schema = pl.from_arrow(case.table.select(case.keys).slice(0, 0)).schema
        scan = {"parquet": pl.scan_parquet, "csv": pl.scan_csv}[case.format]
        return scan(folder, hive_partitioning=True, hive_schema=schema).collect().to_arrow()


class PyArrow:
    name = "pyarrow"

    def write(self, case, folder):
        hive = {"partitioning": case.keys, "partitioning_flavor": "hive"}
        ds.write_dataset(case.rows, folder, format=case.format, **hive)

    def read(self, case, folder):
        schema = case.table.schema
        keys = pa.schema([schema.field(key) for key in case.keys])
        # Nothing between two commas is NULL, as it is for the others.
        csv = ds.CsvFileFormat(convert_options=pa.csv.ConvertOptions(strings_can_be_null=True))
        format_ = csv if case.format == "csv" else case.format
        partitioning = ds.HivePartitioning(keys)
        return ds.dataset(folder, schema=schema, format=format_, partitioning=partitioning).to_table()
