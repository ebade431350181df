"""Random programs, run in every way that has to give the same: see `tests/fuzzing`.

    python benchmarks/fuzz.py --minutes 10 --seed 1 --backend interpreter pjrt:cpu

A fault is printed with the smallest program found that has it, as a script.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
# Programs do not come again, and processes are forked, which threads do not survive.
os.environ.setdefault("XLAPY_CACHE_DIR", "")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fuzzing.campaign import main

if __name__ == "__main__":
    sys.exit(main())
