"""Which prompts are decoded together."""


def grouped(costs: list[int], budget: int, lengths: list[int] | None = None) -> list[list[int]]:
    """Indices in groups with n · largest cost ≤ budget, similar costs together, the largest first; of equal costs,
    similar lengths.  What costs more than the budget alone is a group of its own.
    """
    lengths = costs if lengths is None else lengths
    groups: list[list[int]] = []
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], -lengths[i])):
        if groups and (len(groups[-1]) + 1) * costs[groups[-1][0]] <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
