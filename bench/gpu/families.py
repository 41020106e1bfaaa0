"""Where all kinds of rows come together: products (rows.py, checks.py, tuning.py) and the rest (layer_rows.py,
layer_choices.py). Needs nothing but the standard library until a problem is made.
"""
import layer_choices
import layer_rows
import rows
import tuning

KINDS = rows.KINDS | layer_rows.KINDS

MOST_ROWS_OF_ONE_SHOT = 512  # all-reduces of few rows take one step, and every rank adds up all


def is_product(row):
    return row.kind in rows.KINDS


def all_rows(ranks):
    return rows.all_rows(ranks) + layer_rows.all_rows(ranks)


def why_not(row, ranks):
    """What keeps a row from being split over so many ranks, as NCCL splits; "" if nothing does."""
    if not is_product(row):
        return row.why_not(ranks)
    return f"{row.M} rows of tokens are no multiple of {ranks} ranks" if row.M % ranks else ""


def problem(row, rank, ranks, device):
    if is_product(row):
        import methods
        return methods.ProductProblem(row, rank, ranks, device)
    if row.kind in layer_rows.ATTENTION:
        import attention_rows
        return attention_rows.Problem(row, rank, ranks, device)
    if row.kind in layer_rows.EXPERTS:
        import expert_rows
        return expert_rows.Problem(row, rank, ranks, device)
    import memory_rows
    kind = memory_rows.NormProblem if row.kind in layer_rows.NORMS else memory_rows.EmbeddingProblem
    return kind(row, rank, ranks, device)


def choose(row, ranks, sms, tuned):
    return (tuning if is_product(row) else layer_choices).choose(row, ranks, sms, tuned)


def fits(choice, row, ranks):
    return (tuning if is_product(row) else layer_choices).fits(choice, row, ranks)


def axes(row, sms, local, names):
    """Along which a search walks; `local` is known for products only."""
    if is_product(row):
        return tuning.axes(row.kind, sms, local.get((row.M, row.N, row.K)), names)
    return layer_choices.axes(row, sms, names)


def settings(row, choice, ranks, of_ranks):
    """The overrides of the operator file; kernels that are built ahead for one rank need what `of_ranks` ranks have."""
    found = choice.overrides(row, ranks)
    if not is_product(row):
        return found
    if row.kind == "ar" and row.M <= MOST_ROWS_OF_ONE_SHOT and ranks > 1:
        return found | {"communicate.c.algorithm": "one_shot"}
    return found | tuning.place_of_sums(row.kind, of_ranks)


def tiny(row, choice, ranks):
    """(the least row that has the same kernel, on how many ranks): a product's kernel is the same for all ranks."""
    if is_product(row):
        return rows.Row(row.kind, choice.block_m, choice.width, choice.block_k, ()), 1
    return row.tiny(choice.blocks[0][1], ranks), ranks
