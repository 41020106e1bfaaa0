"""From samples to figures, tables and claims. Needs nothing but the standard library, so that it is tested without a
GPU.

A result of a row is a dictionary: {"row": {"kind", "M", "N", "K", "sources"}, with "size" instead of M, N and K where
it is no product, "us": {METHOD: median}, "samples_us":
{METHOD: [...]}, "host_us": {METHOD: median of what issuing a call took}, "errors": {METHOD: why it has no time},
"notes": {METHOD: choice it made}, "link_us": time of the row's bytes at the best measured link rate, absent where no
link was measured}. Methods are those of METHODS.
"""
import math
import statistics

# In the order of the table's columns. The first two are no operators: they are the product, or what else a rank
# computes, alone, one term of the bound.
METHODS = {
    "cublas": "cuBLAS alone",
    "local": "local alone",
    "sequential": "sequential",
    "streams": "streams",
    "async_tp": "AsyncTP",
    "context_parallel": "context parallel",
    "by_token": "by token",
    "ours": "ours",
}
BASELINES = ("sequential", "async_tp", "context_parallel", "by_token")
NEAR = 0.98  # below this ratio a row counts as slower than a baseline
HOST_BOUND = 0.9  # a call that takes this share of its time to issue waits for the host


def slowest_rank(samples_of_ranks):
    """An operator is as slow as its slowest rank: sample by sample, the maximum over the ranks. Samples of unlike
    numbers are a defect of the caller."""
    if len({len(samples) for samples in samples_of_ranks}) != 1:
        raise ValueError("ranks with unlike numbers of samples")
    return [max(of_ranks) for of_ranks in zip(*samples_of_ranks)]


def median(samples):
    return statistics.median(samples)


def spread(samples):
    """Half the distance between the quartiles over the median: how far a median of other samples may be off."""
    if len(samples) < 2:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(samples)


def geometric_mean(ratios):
    ratios = list(ratios)
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios)) if ratios else None


def calls_per_sample(one_call_us, least_us=5000.0, most=2000):
    """How many back-to-back calls make a sample of at least `least_us`."""
    return max(1, min(most, math.ceil(least_us / max(one_call_us, 1e-3))))


def bound_us(result):
    """No operator is faster than the slower of what it computes and its transfers: max(cuBLAS or local alone, bytes
    over the best measured link rate). None without either alone."""
    product = result["us"].get("cublas", result["us"].get("local"))
    return None if product is None else max(product, result.get("link_us", 0.0))


def speedup(result, over, of="ours"):
    """How many times faster `of` is than `over` in this row, or None if either was not measured."""
    us = result["us"]
    return us[over] / us[of] if over in us and of in us else None


def share_of_bound(result, of="ours"):
    bound, us = bound_us(result), result["us"].get(of)
    return bound / us if bound and us else None


def summary(results):
    """The claims of a table: geometric means over each of BASELINES, the worst rows, and the rows below a bar."""

    def collect(ratio_of):
        pairs = [(ratio_of(result), name_of(result)) for result in results]
        return [pair for pair in pairs if pair[0] is not None]

    def worst(pairs):
        return dict(zip(("ratio", "row"), min(pairs))) if pairs else None

    def below(pairs, bar):
        return [{"ratio": ratio, "row": row} for ratio, row in sorted(pairs) if ratio < bar]

    over = {name: collect(lambda result, name=name: speedup(result, name)) for name in BASELINES}
    bound = collect(share_of_bound)
    return {
        "rows": len(results),
        "rows_with_ours": sum("ours" in result["us"] for result in results),
        **{f"over_{name}": geometric_mean(ratio for ratio, _ in pairs) for name, pairs in over.items()},
        "of_bound": geometric_mean(ratio for ratio, _ in bound),
        **{f"worst_over_{name}": worst(pairs) for name, pairs in over.items()},
        "worst_of_bound": worst(bound),
        **{f"below_{name}": below(pairs, NEAR) for name, pairs in over.items()},
    }


def name_of(result):
    return f"{result['row']['kind']}:{size_of(result['row'])}"


def size_of(row):
    return row["size"] if "size" in row else f"{row['M']}x{row['N']}x{row['K']}"


def compared(results):
    """The baselines that a table has columns for."""
    always = ("sequential", "async_tp") if all(is_product(result) for result in results) else ("sequential",)
    return [name for name in BASELINES
            if name in always or any(name in result["us"] or name in result["errors"] for result in results)]


def is_product(result):
    return "size" not in result["row"]


def bound_by_host(results):
    """{METHOD: rows in which the host, not the GPU, was what it took its time for}"""
    found = {}
    for result in results:
        for method, host_us in result["host_us"].items():
            if method in result["us"] and host_us >= HOST_BOUND * result["us"][method]:
                found.setdefault(method, []).append(name_of(result))
    return found


def number(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def markdown_table(results, with_sources):
    """One line a row, times in us; then ours against the baselines and the bound."""
    methods = [method for method in METHODS if any(method in r["us"] or method in r["errors"] for r in results)]
    linked = any("link_us" in result for result in results)
    head = ["M x N x K" if all(map(is_product, results)) else "size"] + (["where"] if with_sources else [])
    head += [METHODS[method] for method in methods]
    head += ["link"] if linked else []
    head += ["bound", *(f"over {METHODS[name]}" for name in compared(results)), "of bound"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in results:
        row = result["row"]
        cells = [size_of(row)] + ([", ".join(row["sources"])] if with_sources else [])
        cells += [cell(result, method) for method in methods]
        cells += [number(result.get("link_us"))] if linked else []
        ratios = [*(speedup(result, name) for name in compared(results)), share_of_bound(result)]
        cells += [number(bound_us(result))] + [number(ratio, 2) for ratio in ratios]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(result, method):
    if method not in result["us"]:
        return "failed" if method in result["errors"] else "-"
    note = result["notes"].get(method)
    return number(result["us"][method]) + (f" ({note})" if note else "")


def markdown_summary(title, results):
    s = summary(results)
    if not s["rows_with_ours"]:
        return f"{title}: no row has a time of ours."

    def worst(key):
        return f"{s[key]['ratio']:.3f} ({s[key]['row']})" if s[key] else "-"

    def listed(key):
        return ", ".join(f"{entry['row']} {entry['ratio']:.3f}" for entry in s[key]) or "none"

    return "\n".join([
        f"{title}, {s['rows_with_ours']} of {s['rows']} rows:",
        "",
        *(f"- over {METHODS[name]}: geometric mean {number(s[f'over_{name}'], 3)}, "
          f"worst {worst(f'worst_over_{name}')}; rows below {NEAR}: {listed(f'below_{name}')}" for name in compared(results)),
        f"- share of the bound: geometric mean {number(s['of_bound'], 3)}, worst {worst('worst_of_bound')}",
    ])


def grouped(results, kinds, table):
    """(title, results, show sources) of each part of a report: for each kind the table's rows, then the models'; of what
    is no product all together."""
    parts = []
    for kind, title in kinds.items():
        of_kind = [result for result in results if result["row"]["kind"] == kind]
        if of_kind and not is_product(of_kind[0]):
            parts.append((title, of_kind, any(r["row"]["sources"] for r in of_kind)))
            continue
        parts.append((f"{title}, table", [r for r in of_kind if table in r["row"]["sources"]], False))
        parts.append((f"{title}, models", [r for r in of_kind if r["row"]["sources"] != [table]], True))
    return [part for part in parts if part[1]]


def markdown_report(document, kinds, table):
    """The whole report: machine, tables, claims, failures."""
    lines = ["# Operators", "", document["title"], ""]
    lines += [f"- {key}: {value}" for key, value in document["machine"].items()]
    for title, results, with_sources in grouped(document["results"], kinds, table):
        lines += ["", f"## {title}", "", markdown_table(results, with_sources), "", markdown_summary(title, results)]
    for method, names in bound_by_host(document["results"]).items():
        lines += ["", f"{METHODS[method]} was bound by the host (issuing a call took at least {HOST_BOUND:.0%} of its "
                  f"time) in {len(names)} rows: {', '.join(names)}"]
    failures = [f"- {name_of(result)} {method}: {error.splitlines()[0] if error else 'failed'}"
                for result in document["results"] for method, error in result["errors"].items()]
    if failures:
        lines += ["", "## What failed", ""] + failures
    if document.get("not_started"):
        lines += ["", f"Rows not started within the time given: {', '.join(document['not_started'])}"]
    return "\n".join(lines) + "\n"
