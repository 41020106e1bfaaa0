"""libsyncopate.so exports what syncopate.h declares and nothing else, and needs nothing but the C library.

Usage: library_test.py LIBRARY SOURCE_DIR SANITIZED
"""
import pathlib
import re
import subprocess
import sys

LIBRARY, SOURCE, SANITIZED = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3] == "1"
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def main():
    header = (SOURCE / "syncopate/capi/syncopate.h").read_text()
    declared = set(re.findall(r"^SYNCOPATE_API [^;(]*?\b(syncopate_\w+)\(", header, re.M))
    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()}
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", LIBRARY)))
    wrong = [f"declared, not exported: {name}" for name in sorted(declared - exported)]
    wrong += [f"exported, not declared: {name}" for name in sorted(exported - declared)]
    wrong += [f"needed at run time: {name}" for name in sorted(needed - ALLOWED)] if not SANITIZED else []
    newest = max((tuple(map(int, version.split("."))) for version in
                  re.findall(r"GLIBC_([\d.]+)", output("objdump", "-T", LIBRARY))), default=(0,))
    print("\n".join(wrong) or f"{len(exported)} functions; glibc {'.'.join(map(str, newest))} or newer")
    return 1 if wrong or len(declared) < 20 else 0


sys.exit(main())
