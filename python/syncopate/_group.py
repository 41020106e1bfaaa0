"""Ranks that act together: what Operator needs of torch.distributed, or of anything else."""


class Alone:
    """A group of one."""

    rank, size = 0, 1

    def all_gather(self, item):
        return [item]


class TorchGroup:
    """A torch.distributed process group."""

    def __init__(self, distributed, group):
        self._distributed, self._group = distributed, group
        self.rank = distributed.get_rank(group)
        self.size = distributed.get_world_size(group)

    def all_gather(self, item):
        items = [None] * self.size
        self._distributed.all_gather_object(items, item, group=self._group)
        return items


def group_of(group):
    """`group` as an object with rank, size and all_gather; torch's default group, or one rank alone, for None."""
    if all(hasattr(group, name) for name in ("rank", "size", "all_gather")) and not callable(group.rank):
        return group
    import torch.distributed

    if group is None and not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return Alone()
    return TorchGroup(torch.distributed, group)
