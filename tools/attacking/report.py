"""Counts the cases of a run, and prints them as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from attacking import turns, verdicts

if TYPE_CHECKING:
    from attacking.turns import Case

MOST_USED, OTHERS = "most used 100 families", "other families"
GROUPS = (MOST_USED, OTHERS, "tie combinations", "task classes with 12 labels")
HEADINGS = ("", "configs", "exact", "refused", "refused %", "wrong", "only ours", "neither", "slow")
_REASONS_SHOWN = 30


class Tally:
    """What a run found: outcomes by group, reasons of refusals by family, and what is wrong."""

    def __init__(self, most_used: set[str]) -> None:
        self._most_used = most_used
        self.configs: Counter[str] = Counter()
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.refusals_after: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        self.wrong: list[dict[str, Any]] = []
        self.families: set[str] = set()
        self.unattacked: dict[str, str] = {}

    @property
    def total_configs(self) -> int:
        """How many configs were made."""
        return sum(self.configs.values())

    def add(self, case: Case) -> None:
        """Count a case."""
        if case.kind in {turns.UNBUILT, turns.STOPPED}:
            self.unattacked[case.family] = f"{case.kind}: {case.finding}"
            return
        group = self.group_of(case)
        self.families.add(case.family)
        self.configs[group] += 1
        for verdict in case.verdicts:
            self.outcomes[group][verdict.outcome] += 1
            if verdict.outcome == verdicts.REFUSED:
                self.refusals[case.family, verdict.reason] += 1
                self.refusals_after.update(case.mutations)
            elif verdict.outcome == verdicts.WRONG:
                self.wrong.append({"case": case._asdict(), "verdict": verdict._asdict()})
        if case.finding:
            self.findings.setdefault(case.finding, case.family)

    def group_of(self, case: Case) -> str:
        """Return the row of the table that a case counts in."""
        if case.kind == turns.TIES:
            return GROUPS[2]
        if case.kind == turns.LABELS:
            return GROUPS[3]
        return MOST_USED if case.family in self._most_used else OTHERS

    def table(self) -> str:
        """Return the outcomes by group, as a table in Markdown."""
        lines = [HEADINGS, ("--", *["--:"] * (len(HEADINGS) - 1))]
        lines += [self._row(group) for group in GROUPS]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _row(self, group: str) -> tuple[str, ...]:
        counts = self.outcomes[group]
        numbers = [counts[outcome] for outcome in (verdicts.EXACT, verdicts.REFUSED)]
        shown = [self.configs[group], *numbers]
        rest = (verdicts.WRONG, verdicts.ONLY_OURS, verdicts.REFUSED_BY_BOTH, verdicts.SKIPPED)
        after = [counts[outcome] for outcome in rest]
        return (
            group,
            *(f"{number:,}" for number in shown),
            f"{self.refusal_rate(group):.1%}",
            *(f"{number:,}" for number in after),
        )

    def refusal_rate(self, group: str) -> float:
        """Return the share of what transformers accepts that weighbridge refuses."""
        counts = self.outcomes[group]
        accepted = counts[verdicts.EXACT] + counts[verdicts.REFUSED] + counts[verdicts.WRONG]
        return counts[verdicts.REFUSED] / max(accepted, 1)

    def reasons(self) -> str:
        """Return the commonest reasons of refusals by family, one a line."""
        common = sorted(self.refusals.items(), key=lambda item: (-item[1], item[0]))
        lines = [f"{number:5}  {family}: {reason}" for (family, reason), number in common]
        if len(lines) > _REASONS_SHOWN:
            lines = [*lines[:_REASONS_SHOWN], f"  and {len(lines) - _REASONS_SHOWN} more"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {
            "groups": {
                group: {"configs": self.configs[group], **self.outcomes[group]} for group in GROUPS
            },
            "families": sorted(self.families),
            "unattacked": self.unattacked,
            "findings": list(self.findings),
            "refusals": [
                {"family": family, "reason": reason, "count": number}
                for (family, reason), number in self.refusals.most_common()
            ],
            "refusals_after": dict(self.refusals_after.most_common()),
            "wrong": self.wrong,
        }
