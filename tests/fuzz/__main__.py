"""``python -m tests.fuzz``: a long run over every reader; prints what it did and what broke.

python -m tests.fuzz --minutes 60 --first 1000000      # other files than the last time
python -m tests.fuzz --reader plan --seed 4711         # one file again, with its trace
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.readers import READERS
from tests.fuzz.run import draw, prepare, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--most", type=int, help="Stop after so many executions.")
    parser.add_argument("--first", type=int, default=0, help="Seed of the first file.")
    parser.add_argument("--reader", choices=[reader.name for reader in READERS])
    parser.add_argument("--seed", type=int, help="Only this file of --reader.")
    asked = parser.parse_args()
    readers = [r for r in READERS if asked.reader in (None, r.name)]
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as name:
        folder = Path(name)
        if asked.seed is not None:
            prepare(folder)
            path = draw(readers[0], asked.seed, folder)
            sys.stderr.write(f"{path.read_bytes()[:2000]!r}\n")
            readers[0].read(path)
            return 0
        start = time.monotonic()
        counts = run(readers, folder, asked.minutes * 60, asked.first, asked.most)
        took = time.monotonic() - start
    for reader, count in counts.items():
        print(
            f"{reader:10} {count.executions:>9,} {count.read:>9,} read {count.refused:>9,} refused"
        )
    total = sum(count.executions for count in counts.values())
    print(f"{total:,} executions in {took:.0f} s, {total / took:,.0f} a second")
    broken = [(where, what) for count in counts.values() for where, what in count.broken.items()]
    for where, what in broken:
        print(f"BROKEN {where}: {what}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
