#!/usr/bin/env bash
# Fetches the ratings of MovieLens 100k for the example `movielens`:
#
#     examples/fetch-movielens.sh [FILE]
#
# FILE is target/movielens/ml-100k.inter of this checkout by default, where the example looks.
# The data comes out of the wheel recbole 1.2.1 on PyPI and stays outside of version control; its
# terms of use are those of GroupLens, https://grouplens.org/datasets/movielens/100k/.
# Needs python3 with pip, and a network or an index that pip is configured for.
set -euo pipefail

package='recbole==1.2.1'
member='recbole/dataset_example/ml-100k/ml-100k.inter'
sha256='4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff'
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

if [[ $# -gt 1 ]]; then fail "expected at most one argument, FILE; got $#"; fi
file=${1:-$root/target/movielens/ml-100k.inter}

check() { # file
    python3 - "$1" "$sha256" <<'PYTHON'
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    sys.exit(hashlib.sha256(file.read()).hexdigest() != sys.argv[2])
PYTHON
}

command -v python3 >/dev/null || fail 'python3 is missing; it is needed to fetch and unpack the wheel'
if [[ -e $file ]]; then
    check "$file" || fail "$file exists and is not the expected file; remove it or name another FILE"
    printf '%s is there already\n' "$file"
    exit 0
fi
python3 -m pip --version >/dev/null 2>&1 || fail 'pip is missing: python3 -m ensurepip'

downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$downloads" "$package" >&2 ||
    fail "pip could not download $package; nothing was written. Without a network, put $member of
that wheel at $file yourself"

wheels=("$downloads"/*.whl)
python3 - "${wheels[0]}" "$member" "$downloads/ratings" <<'PYTHON' || fail "$package has no $member"
import sys, zipfile
wheel, member, output = sys.argv[1:]
try:
    data = zipfile.ZipFile(wheel).read(member)
except (KeyError, zipfile.BadZipFile) as error:
    sys.exit(str(error))
with open(output, "wb") as file:
    file.write(data)
PYTHON
check "$downloads/ratings" || fail "$member of $package is not the expected file; nothing was written"

# In one step, so that a file that is there is whole.
mkdir -p "$(dirname "$file")"
cp "$downloads/ratings" "$file.part"
mv "$file.part" "$file"
printf 'wrote %s\n' "$file"
