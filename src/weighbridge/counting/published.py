"""Published numbers whose explanation is known: the claims in `facts/published.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.counting.reconciliation import PublishedNumber, Way, read_number
from weighbridge.models.find import find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.models.find import Model


class KnownClaim(NamedTuple):
    """A published number with its model, what it claims to count, its source, and the answer.

    ``class_name`` and ``conventions`` are the way of counting that it turned out to be; without a
    class no way gives the number, and ``because`` may say why.
    """

    model: str
    says: Mapping[str, str]
    source: Mapping[str, str]
    because: Mapping[str, str]
    class_name: str
    conventions: tuple[str, ...]

    def is_counted_by(self, way: Way) -> bool:
        """Whether a way of counting is the one that the claim turned out to be."""
        conventions = tuple(step.convention for step in way.steps)
        return (way.class_name, conventions) == (self.class_name, self.conventions)


def known_claims(wanted: PublishedNumber, model: Model | None = None) -> Iterator[KnownClaim]:
    """Yield what is known about a number, for one model or for all.

    Example:
        >>> [claim.model for claim in known_claims(read_number(109_418_952))]
        ['bert-base-uncased']
    """
    for entry in data.read_toml("facts/published.toml")["claim"]:
        stated = read_number(entry["stated"])
        # A rounded number is only known as it was rounded.
        if stated._replace(text="") == wanted._replace(text="") and _is_about(entry, model):
            yield KnownClaim(
                model=entry["model"],
                says=entry["says"],
                source=entry["source"],
                because=entry.get("because", {}),
                class_name=entry.get("class", ""),
                conventions=tuple(entry.get("conventions", ())),
            )


def _is_about(entry: Mapping[str, Any], model: Model | None) -> bool:
    """Whether a claim is about a model, or about one with the same sizes."""
    if model is None:
        return True
    meant = find(entry["model"])
    families = (meant.blueprint.family, meant.blueprint.composed)
    is_of_families = families == (model.blueprint.family, model.blueprint.composed)
    return is_of_families and meant.fields == model.fields
