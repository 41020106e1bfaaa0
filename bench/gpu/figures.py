"""From samples to figures, tables and claims. Needs nothing but the standard library, so that it is tested without a
GPU.

A result of a row is a dictionary: {"row": {"kind", "M", "N", "K", "sources"}, "us": {METHOD: median}, "samples_us":
{METHOD: [...]}, "host_us": {METHOD: median of what issuing a call took}, "errors": {METHOD: why it has no time},
"notes": {METHOD: choice it made}, "link_us": time of the row's bytes at the best measured link rate, absent where no
link was measured}. Methods are those of METHODS.
"""
import math
import statistics

# In the order of the table's columns. The first is no operator: it is the product alone, one term of the bound.
METHODS = {
    "cublas": "cuBLAS alone",
    "sequential": "sequential",
    "streams": "streams",
    "async_tp": "AsyncTP",
    "ours": "ours",
}
NEAR_ASYNC_TP = 0.98  # below this ratio a row counts as slower than AsyncTP
NEAR_SEQUENTIAL = 0.98
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
    """No operator is faster than the slower of its product and its transfers: max(cuBLAS alone, bytes over the best
    measured link rate). None without cuBLAS."""
    product = result["us"].get("cublas")
    return None if product is None else max(product, result.get("link_us", 0.0))


def speedup(result, over, of="ours"):
    """How many times faster `of` is than `over` in this row, or None if either was not measured."""
    us = result["us"]
    return us[over] / us[of] if over in us and of in us else None


def share_of_bound(result, of="ours"):
    bound, us = bound_us(result), result["us"].get(of)
    return bound / us if bound and us else None


def summary(results):
    """The claims of a table: geometric means over sequential and AsyncTP, the worst rows, and the rows below a bar."""

    def collect(ratio_of):
        pairs = [(ratio_of(result), name_of(result)) for result in results]
        return [pair for pair in pairs if pair[0] is not None]

    def worst(pairs):
        return dict(zip(("ratio", "row"), min(pairs))) if pairs else None

    def below(pairs, bar):
        return [{"ratio": ratio, "row": row} for ratio, row in sorted(pairs) if ratio < bar]

    sequential = collect(lambda result: speedup(result, "sequential"))
    async_tp = collect(lambda result: speedup(result, "async_tp"))
    bound = collect(share_of_bound)
    return {
        "rows": len(results),
        "rows_with_ours": sum("ours" in result["us"] for result in results),
        "over_sequential": geometric_mean(ratio for ratio, _ in sequential),
        "over_async_tp": geometric_mean(ratio for ratio, _ in async_tp),
        "of_bound": geometric_mean(ratio for ratio, _ in bound),
        "worst_over_sequential": worst(sequential),
        "worst_over_async_tp": worst(async_tp),
        "worst_of_bound": worst(bound),
        "below_sequential": below(sequential, NEAR_SEQUENTIAL),
        "below_async_tp": below(async_tp, NEAR_ASYNC_TP),
    }


def name_of(result):
    row = result["row"]
    return f"{row['kind']}:{row['M']}x{row['N']}x{row['K']}"


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
    """One line a row, times in us; then ours against sequential, AsyncTP and the bound."""
    methods = [method for method in METHODS if any(method in r["us"] or method in r["errors"] for r in results)]
    linked = any("link_us" in result for result in results)
    head = ["M x N x K"] + (["where"] if with_sources else []) + [METHODS[method] for method in methods]
    head += (["link"] if linked else []) + ["bound", "over sequential", "over AsyncTP", "of bound"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in results:
        row = result["row"]
        cells = [f"{row['M']}x{row['N']}x{row['K']}"] + ([", ".join(row["sources"])] if with_sources else [])
        cells += [cell(result, method) for method in methods]
        cells += [number(result.get("link_us"))] if linked else []
        ratios = [speedup(result, "sequential"), speedup(result, "async_tp"), share_of_bound(result)]
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
        f"- over sequential: geometric mean {number(s['over_sequential'], 3)}, worst {worst('worst_over_sequential')}; "
        f"rows below {NEAR_SEQUENTIAL}: {listed('below_sequential')}",
        f"- over AsyncTP: geometric mean {number(s['over_async_tp'], 3)}, worst {worst('worst_over_async_tp')}; "
        f"rows below {NEAR_ASYNC_TP}: {listed('below_async_tp')}",
        f"- share of the bound: geometric mean {number(s['of_bound'], 3)}, worst {worst('worst_of_bound')}",
    ])


def grouped(results, kinds, table):
    """(title, results, show sources) of each part of a report: for each kind the table's rows, then the models'."""
    parts = []
    for kind, title in kinds.items():
        of_kind = [result for result in results if result["row"]["kind"] == kind]
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
