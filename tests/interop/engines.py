"""How each engine writes a case into a folder, and reads the folder back as an Arrow table.

Types of partition columns are declared, since names of directories do not tell a text `007` from a number.
"""

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
        statements = [self.create(case, folder)]
        for verb, rows in [("INSERT INTO", case.table), ("INSERT OVERWRITE", case.corrections)]:
            if rows is not None:
                source = folder.with_name(f"{folder.name} {verb}.parquet")
                pq.write_table(rows, source)
                statements.append(f"CREATE EXTERNAL TABLE \"{verb}\" STORED AS PARQUET LOCATION '{source}'")
                statements.append(f'{verb} t SELECT * FROM "{verb}"')
        self.run(statements)

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
