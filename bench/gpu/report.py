#!/usr/bin/env python3
"""The report of several runs of operators.py as one: `report.py first.json second.json > operators.md`.

Each row is from one run, the last one that has it; runs are told apart in the list of machines.
"""
import argparse
import json
import pathlib

import families
import figures
import rows


def merged(documents):
    """One document from several. Runs with other numbers of ranks or on a shared GPU do not belong into one table."""
    if len({(document["ranks"], document["share"]) for document in documents}) != 1:
        raise ValueError("these runs have unlike numbers of ranks, or only some of them share a GPU")
    results = {}
    for document in documents:
        for result in document["results"]:
            results[figures.name_of(result)] = result
    order = {row.name: place for place, row in enumerate(families.all_rows(documents[0]["ranks"]))}
    machine = {}
    for run, document in enumerate(documents, 1):
        for key, value in document["machine"].items():
            if machine.get(key, value) != value:
                key = f"{key} of run {run}"
            machine[key] = value
    return {**documents[0], "machine": machine, "not_started": [],
            "results": sorted(results.values(), key=lambda result: order.get(figures.name_of(result), len(order)))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="what operators.py --json wrote")
    document = merged([json.loads(path.read_text()) for path in parser.parse_args().results])
    print(figures.markdown_report(document, families.KINDS, rows.TABLE), end="")
