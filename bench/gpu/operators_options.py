"""The options of operators.py, apart from it: they are read before torch is loaded."""
import argparse

import families
import figures
import tuning


def parse(arguments, description):
    parser = argparse.ArgumentParser(prog="operators.py", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="products", help="comma-separated: all, products, table, models, a kind "
                        f"({', '.join(families.KINDS)}), 70B, QKV, M=4096, 8192x3584x8192; words joined by + must all "
                        "hold (ag+table); long rows need the word too (heads+long)")
    parser.add_argument("--methods", default=",".join(figures.METHODS), help="comma-separated, of: %(default)s")
    parser.add_argument("--share", action="store_true", help="all ranks on GPU 0: only ours, and what runs alone")
    parser.add_argument("--search", action="store_true", help="search a choice for rows that the tuned file lacks")
    parser.add_argument("--search-again", action="store_true", help="with --search: for all rows")
    parser.add_argument("--axes", default=",".join(tuning.AXES), help="along which a search walks (%(default)s)")
    parser.add_argument("--tuned", default=str(tuning.TUNED), help="the file of choices (%(default)s)")
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--sample-ms", type=float, default=5.0)
    parser.add_argument("--skip", help="results of an earlier run (JSON): rows that it has are left out")
    parser.add_argument("--seconds", type=float, default=540, help="no row is started later than this (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds that one wait of ours may take")
    parser.add_argument("--json", help="file for all results; written after every row")
    parser.add_argument("--markdown", help="file for the report")
    options = parser.parse_args(arguments)
    options.methods = [name for name in options.methods.split(",") if name]
    unknown = set(options.methods) - set(figures.METHODS)
    if unknown:
        parser.error(f"unknown method {', '.join(sorted(unknown))}; there are {', '.join(figures.METHODS)}")
    options.axes = options.axes.split(",")
    if unknown := set(options.axes) - set(tuning.AXES):
        parser.error(f"unknown axis {', '.join(sorted(unknown))}; there are {', '.join(tuning.AXES)}")
    if options.share:
        options.methods = [name for name in options.methods if name in ("cublas", "local", "ours")]
    return options
