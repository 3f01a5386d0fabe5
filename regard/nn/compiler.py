"""Whether torch.compile works here: it needs a C++ compiler, and on a GPU Triton."""

from functools import cache

import torch


@cache
def compile_failure(device: str) -> str:
    """Why nothing can be compiled for this kind of device, in a line; empty when it can."""
    try:
        torch.compile(lambda x: x * 2 + 1)(torch.ones(8, device=device))
    except Exception as error:  # whatever a missing or broken compiler raises: the caller goes on without
        lines = str(error).strip().splitlines()
        return lines[0][:100] if lines else type(error).__name__
    return ""
