"""``python -m ulmus`` is the command line."""

from ulmus.cli.main import entry

if __name__ == "__main__":
    entry()
