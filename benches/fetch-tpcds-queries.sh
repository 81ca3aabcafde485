#!/usr/bin/env bash
# Fetches the texts of the 99 queries of TPC-DS for the benchmark `tpcds`:
#
#     benches/fetch-tpcds-queries.sh [DIRECTORY]
#
# DIRECTORY is target/tpcds-queries of this checkout by default, where the benchmark looks; it gets the
# files q01.sql to q99.sql. The texts come out of DuckDB's extension tpcds, as the packages duckdb and
# duckdb-extension-tpcds on PyPI have it, and stay outside of version control.
# Needs python3 with pip, and a network or an index that pip is configured for.
set -euo pipefail

version='1.5.5' # of both packages, which must agree
sha256='54aadd35f1b5c9c519705daabd081905e2ade3732ee89326da883244101e9142' # of all texts in a row
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

if [[ $# -gt 1 ]]; then fail "expected at most one argument, DIRECTORY; got $#"; fi
directory=${1:-$root/target/tpcds-queries}

check() { # directory
    python3 - "$1" "$sha256" <<'PYTHON'
import hashlib, pathlib, sys
directory = pathlib.Path(sys.argv[1])
texts = b"".join(path.read_bytes() for path in sorted(directory.glob("q??.sql")))
sys.exit(hashlib.sha256(texts).hexdigest() != sys.argv[2])
PYTHON
}

command -v python3 >/dev/null || fail 'python3 is missing; it is needed to fetch the packages and to run DuckDB'
if [[ -e $directory ]]; then
    check "$directory" ||
        fail "$directory exists and does not hold the expected texts; remove it or name another DIRECTORY"
    printf '%s is there already\n' "$directory"
    exit 0
fi
python3 -m pip --version >/dev/null 2>&1 || fail 'pip is missing: python3 -m ensurepip'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --root-user-action ignore \
    --target "$work/packages" "duckdb==$version" "duckdb-extension-tpcds==$version" >&2 ||
    fail "pip could not install duckdb and duckdb-extension-tpcds $version; nothing was written"

mkdir "$work/queries"
PYTHONPATH="$work/packages" python3 - "$work" <<'PYTHON' || fail 'DuckDB did not return the texts; nothing was written'
import pathlib, sys
import duckdb
work = pathlib.Path(sys.argv[1])
[extension] = work.glob("packages/duckdb_extension_tpcds/extensions/*/tpcds.duckdb_extension")
connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
connection.load_extension(str(extension))
for number, text in connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
    (work / "queries" / f"q{number:02}.sql").write_bytes(text.encode())
PYTHON
check "$work/queries" || fail 'the texts are not the expected ones; nothing was written'

# In one step, so that a directory that is there is whole.
mkdir -p "$(dirname "$directory")"
rm -rf "$directory.part"
cp -r "$work/queries" "$directory.part"
mv "$directory.part" "$directory"
printf 'wrote %s\n' "$directory"
