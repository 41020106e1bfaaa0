"""Checks that includes point down: a floor may include only itself and the floors below it.

Usage: layering.py SOURCE_DIR. Exits 1 with the offending lines.
"""
import pathlib
import re
import sys

BELOW = {
    "core": [],
    "kernel": ["core"],
    "schedule": ["core"],
    "plan": ["core", "kernel", "schedule"],
    "verify": ["core", "schedule", "plan"],
    "emit": ["core", "kernel", "plan"],
    "host": ["core", "kernel", "schedule", "plan"],
    "cuda": ["core", "kernel", "schedule", "plan"],
    "driver": ["core", "kernel", "schedule", "plan", "emit"],
    "capi": ["core", "kernel", "schedule", "plan", "verify", "emit", "host", "cuda", "driver"],
    "cli": ["core", "kernel", "schedule", "plan", "verify", "emit", "host", "cuda", "driver"],
}


def main(root: pathlib.Path) -> int:
    wrong = []
    seen = 0
    for path in sorted((root / "syncopate").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        floor = path.relative_to(root / "syncopate").parts[0]
        if floor not in BELOW:
            wrong.append(f"{path}: floor '{floor}' is not in the list of tests/layering.py")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"syncopate/([^/"]+)/', line)
            if not match:
                continue
            seen += 1
            if match[1] != floor and match[1] not in BELOW[floor]:
                wrong.append(f"{path}:{number}: '{floor}' may not include '{match[1]}'")
    print("\n".join(wrong) or f"{seen} includes point down")
    return 1 if wrong or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
