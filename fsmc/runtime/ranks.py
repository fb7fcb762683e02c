"""Agreement between the ranks of a tensor-parallel model: a request starts on all of them or on none.

Each rank compiles for itself. What is ready on all ranks is ready; what failed on one has failed. Later pipeline stages do not
ask each other: they follow the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from fsmc.compiler.errors import FsmcError


class RankFailure(FsmcError, RuntimeError):
    """Another rank did not answer: it died, or is stuck. Nothing can be agreed upon any more."""


class RankAgreement:
    """How one rank of a process group finds out what all of them have.

    tensor_group: the ranks that hold parts of the same layers; None: this rank alone. pipeline_group: this rank and those of the
    other stages that go with it, the first stage first; None: there is one stage. Groups are of ``torch.distributed``, on a backend
    for the CPU (gloo). timeout: seconds within which the others have to answer.

    All ranks of a group have to call `agree` equally often, with the same requests waiting.
    """

    def __init__(self, tensor_group: Any = None, pipeline_group: Any = None, *, timeout: float = 30.0) -> None:
        self.tensor_group, self.pipeline_group, self.timeout = tensor_group, pipeline_group, timeout

    @property
    def follows(self) -> bool:
        """Whether this is a later pipeline stage."""
        if self.pipeline_group is None:
            return False
        import torch.distributed as dist

        return dist.get_rank(self.pipeline_group) > 0

    def agree(self, ready: Iterable[str], failed: Mapping[str, str]) -> tuple[set[str], dict[str, str]]:
        """The requests that are ready everywhere, and those that failed somewhere with their messages.

        ready, failed: those here, by name. Raises RankFailure where a rank does not answer in time.
        """
        mine: dict[str, Any] = {"ready": sorted(ready), "failed": dict(failed)}
        try:
            if self.follows:
                agreed = self._from_first(None)
            else:
                everyone = [mine] if self.tensor_group is None else self._gather(mine)
                together: dict[str, str] = {}
                for one in everyone:
                    for name, message in one["failed"].items():
                        together.setdefault(name, message)
                common = set.intersection(*(set(one["ready"]) for one in everyone)) - together.keys()
                agreed = {"ready": sorted(common), "failed": together}
                if self.pipeline_group is not None:
                    self._from_first(agreed)
        except RuntimeError as error:  # what torch.distributed raises, also for time
            raise RankFailure(
                f"a rank does not answer ({str(error).splitlines()[0] if str(error) else error!r})"
            ) from error
        return set(agreed["ready"]), dict(agreed["failed"])

    def _gather(self, mine: Any) -> list[Any]:
        """What every rank of the tensor group gave. JSON, as nothing that comes from elsewhere is ever unpickled."""
        import torch
        import torch.distributed as dist

        n_ranks = dist.get_world_size(self.tensor_group)
        data = json.dumps(mine).encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(n_ranks)]
        self._finish(dist.all_gather(sizes, torch.tensor([len(data)]), group=self.tensor_group, async_op=True))
        longest = int(max(sizes))
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(n_ranks)]
        self._finish(dist.all_gather(parts, padded, group=self.tensor_group, async_op=True))
        return [json.loads(part[: int(size)].numpy().tobytes()) for part, size in zip(parts, sizes, strict=True)]

    def _from_first(self, agreed: Any) -> Any:
        """What the first stage tells the later ones; it gives ``agreed``, they None."""
        import torch
        import torch.distributed as dist

        first = dist.get_global_rank(self.pipeline_group, 0)
        data = json.dumps(agreed).encode()
        size = torch.tensor([len(data)])
        self._finish(dist.broadcast(size, first, group=self.pipeline_group, async_op=True))
        told = torch.zeros(int(size), dtype=torch.uint8)
        if agreed is not None:
            told[:] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self._finish(dist.broadcast(told, first, group=self.pipeline_group, async_op=True))
        return json.loads(told.numpy().tobytes())

    def _finish(self, work: Any) -> None:
        work.wait(timedelta(seconds=self.timeout))
