"""The command line: arguments in, exit code out. No decision is made here."""


def main() -> int:
    """Run one command."""
    return 0
