"""``ulmus`` and ``python -m ulmus`` are the command line, whose packages are an extra."""

import sys


def entry() -> None:
    """The console script; where its packages are not there, it says how to install them."""
    try:
        from ulmus.cli.main import main
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] == "ulmus":
            raise
        sys.exit(f'error: the command line needs {error.name}; run pip install "ulmus[cli,report]"')
    sys.exit(main())


if __name__ == "__main__":
    entry()
