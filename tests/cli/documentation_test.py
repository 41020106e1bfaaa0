"""Runs every `build/release/syncopate ...` command that README.md and docs/ show, in order, in a copy of the tree's
operators, kernels and examples, and checks that links to files of the project are not dead.

Usage: documentation_test.py BINARY SOURCE_DIR
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])


def commands(text):
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("build/release/syncopate "):
                yield line.strip()


def dead_links(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not (page.parent / target).exists():
            yield f"{page.relative_to(SOURCE)}: no such file: {target}"


def main():
    pages = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
    failures = [dead for page in pages for dead in dead_links(page)]
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("kernels", "operators", "examples"):
            shutil.copytree(SOURCE / name, pathlib.Path(folder) / name)
        for page in pages:
            for command in commands(page.read_text()):
                words = shlex.split(command, comments=True)
                result = subprocess.run([BINARY, *words[1:]], cwd=folder, capture_output=True, text=True, timeout=120)
                count += 1
                if result.returncode != 0:
                    failures.append(f"{page.relative_to(SOURCE)}: {command}\n{result.stdout}{result.stderr}")
    print("\n".join(failures) or f"{count} commands of {len(pages)} pages work")
    return 1 if failures or count < 5 else 0


sys.exit(main())
