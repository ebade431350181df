"""Write the operation reference, docs/operations.md and docs/operations/, from the records of the operations."""

from __future__ import annotations

import argparse
from pathlib import Path

from operation_reference.pages import pages

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write every page that changed, and remove those of families that are gone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE, help="where the pages go")
    output: Path = parser.parse_args().output
    found = pages()
    for path in sorted((output / "operations").glob("*.md")):
        if str(path.relative_to(output)) not in found:
            path.unlink()
    for name, text in found.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main()
