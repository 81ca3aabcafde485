"""Tables that this project writes, read by DuckDB, Polars and pyarrow, and tables that these write, read by it.

`python3 tests/interop/run.py --dfp target/debug/dfp`. The engines are installed from `requirements.txt` into a
virtual environment, which is kept. The cases are in `cases.py`, what each engine does in `engines.py`.
"""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

# The clone stays clean.
sys.dont_write_bytecode = True

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def main():
    options = arguments()
    if not (options.dfp.is_file() and os.access(options.dfp, os.X_OK)):
        sys.exit(f"--dfp {options.dfp} is no program; build it with `cargo build --bin dfp`")
    if Path(sys.prefix).resolve() != options.venv.resolve():
        run_in(options.venv)
    import check  # needs the packages of the virtual environment

    sys.exit(check.main(options.dfp.resolve()))


def arguments():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dfp", type=Path, required=True, help="the shell of this project")
    parser.add_argument(
        "--venv",
        type=Path,
        default=cache / "datafusion-partitioned" / "interop-venv",
        help="where the virtual environment is, or is made [default: %(default)s]",
    )
    return parser.parse_args()


def run_in(folder):
    """Starts this program again in the virtual environment, which is made if it has not these requirements."""
    python = folder / "bin" / "python"
    installed = folder / "requirements.txt"
    if not (installed.is_file() and installed.read_bytes() == REQUIREMENTS.read_bytes()):
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").is_file():
            sys.exit(f"--venv {folder} has other things in it; name an empty folder, or one that is not there")
        print(f"making the virtual environment {folder}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS]
        if subprocess.run(install).returncode != 0:
            sys.exit(f"pip could not install {REQUIREMENTS} into {folder}; its reason is above")
        installed.write_bytes(REQUIREMENTS.read_bytes())
    os.execv(python, [str(python), *sys.argv])


if __name__ == "__main__":
    main()
