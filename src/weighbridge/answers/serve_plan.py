"""Plans for serving on a cluster: each way of dividing the model, its memory and its speed."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.serve import Server, Serving
from weighbridge.costs.parallel import ParallelPlan
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.answers.serve import Service
    from weighbridge.costs.devices import Devices
    from weighbridge.render.document import Document


class TriedService(NamedTuple):
    """A way of serving that was tried: what the fullest device holds, and bounds on speed.

    ``over_bytes`` is what that device lacks; 0 or less if it fits. ``seconds`` is the least time of
    a step, ``tokens_per_second`` the most that all sequences get together.
    """

    service: Service
    seconds: float
    tokens_per_second: float
    peak_bytes: int
    over_bytes: int

    @property
    def fits(self) -> bool:
        """Whether every device has room."""
        return self.over_bytes <= 0


class ServiceSearch(TabularAnswer):
    """What `plan` returns for serving.

    Example:
        >>> from weighbridge.answers.plan import plan
        >>> plans = plan("gpt2", on="4xL4", batch=8, context=1024, serve=True)
        >>> plans.status, plans.best.service.plan.world
        (0, 4)
    """

    groupings = ("plan",)

    def __init__(
        self, found: RecordedModel, devices: Devices, first: Service, allowance: int
    ) -> None:
        self.found, self.devices, self.first, self.allowance = found, devices, first, allowance
        self.server = Server(found)

    @property
    def status(self) -> int:
        """0 if some plan fits, 1 if none does."""
        return 0 if self.fitting else 1

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return list(self.found.notes)

    @cached_property
    def tried(self) -> list[TriedService]:
        """Every plan, in the order of the search."""
        return [self._try(self.first._replace(plan=ways)) for ways in self._ways()]

    @cached_property
    def fitting(self) -> list[TriedService]:
        """The plans that fit, those with the most tokens a second first."""
        fitting = [tried for tried in self.tried if tried.fits]
        return sorted(fitting, key=lambda tried: (-tried.tokens_per_second, tried.peak_bytes))

    @cached_property
    def nearest(self) -> list[TriedService]:
        """The plans that do not fit, those that lack least first."""
        over = [tried for tried in self.tried if not tried.fits]
        return sorted(over, key=lambda tried: tried.over_bytes)

    @property
    def best(self) -> TriedService:
        """The plan with the most tokens a second.

        Raises:
            UsageError: none fits.
        """
        if not self.fitting:
            raise UsageError("no plan fits", hint="give more devices, or smaller --weights")
        return self.fitting[0]

    def _ways(self) -> Iterator[ParallelPlan]:
        world, division = self.devices.number, self.server.division
        sizes = [size for size in range(1, world + 1) if world % size == 0]
        for tensor, stages in product(sizes, sizes):
            copies, rest = divmod(world, tensor * stages)
            if rest or not copies:
                continue
            for expert in (size for size in sizes if copies % size == 0):
                ways = ParallelPlan(tensor, stages, 1, expert, copies)
                if self._allows(ways, division.experts):
                    yield ways

    def _allows(self, ways: ParallelPlan, experts: int) -> bool:
        if ways.expert > 1 and not experts:
            return False
        try:
            self.server.division.check(ways)
        except UsageError:
            return False
        return True

    def _try(self, service: Service) -> TriedService:
        serving = Serving(self.found, self.devices, service, self.allowance)
        return TriedService(
            service,
            serving.step_bound.seconds,
            serving.tokens_per_second,
            serving.memory.bytes,
            -serving.left_bytes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "model": self.found.weighing.model.where,
            "family": self.found.known.family,
            "class": self.found.class_name,
            "on": {"devices": self.devices.number, "device": self.devices.device.name},
            "context": self.first.context,
            "batch": self.first.batch,
            "tried": len(self.tried),
            "fits": bool(self.fitting),
            "fitting": len(self.fitting),
            "best": _service_dict(self.best) if self.fitting else None,
            "plans": [_service_dict(tried) for tried in (*self.fitting, *self.nearest)],
            "notes": self.notes,
            "evidence": self.found.evidence,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the plans that fit, and what the others lack."""
        from weighbridge.answers import serve_table  # noqa: PLC0415  # JSON does without

        return serve_table.service_plans_document(self, lang)

    def _data_table(self, _: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            TRUTH,
            Column,
            DataTable,
        )

        rows = []
        for tried in (*self.fitting, *self.nearest):
            ways = tried.service.plan
            sizes = (ways.tensor, ways.pipeline, ways.expert, ways.data)
            microseconds = round(tried.seconds * 10**6)
            rows.append((tried.fits, *sizes, microseconds, tried.peak_bytes, tried.over_bytes))
        names = (
            *("tensor_ranks", "pipeline_ranks", "expert_ranks", "data_ranks"),
            *("step_microseconds", "peak_bytes", "over_bytes"),
        )
        columns = (Column("fits", TRUTH), *(Column(name, INTEGER) for name in names))
        return DataTable(columns, rows)


def _service_dict(tried: TriedService) -> dict[str, Any]:
    return {
        "plan": tried.service.plan._asdict(),
        "fits": tried.fits,
        "step_seconds": tried.seconds,
        "tokens_per_second": tried.tokens_per_second,
        "peak_bytes": tried.peak_bytes,
        "over_bytes": tried.over_bytes,
    }
