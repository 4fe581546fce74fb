"""The interface of the code that derivation runs: a model type of transformers or a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import nn

    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.reversal import Files
    from weighbridge.derive.probing.symbolic import SymbolicTrace


class Knob(NamedTuple):
    """A config field that can be turned: its dotted path, its default, its annotation."""

    path: str
    value: Any
    annotation: str


class Subject(Protocol):
    """Code to derive a blueprint from: its config, its classes, and what those build.

    A config may be any object: only the subject's own methods read it. Changes and fields are keyed
    by dotted path.
    """

    family: str
    base_class: str

    @property
    def command(self) -> str:
        """The command that derives the blueprint."""

    @property
    def reference(self) -> str:
        """What the blueprint is proved against, with its version."""

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""

    @property
    def config_name(self) -> str:
        """The name of the class or object that has the defaults."""

    @property
    def code(self) -> str:
        """The text of the modules that hold the model and its config."""

    @property
    def start(self) -> dict[str, Any]:
        """The changes without which the base class cannot be built, or is too large."""

    @property
    def together(self) -> list[dict[str, Any]]:
        """Groups of fields that can only be turned together, with values that fit together."""

    @property
    def pinned(self) -> list[str]:
        """Fields to keep at their defaults: no arithmetic expresses what they decide."""

    @property
    def required(self) -> list[str]:
        """Conditions between fields that no question of the code shows, as expressions."""

    @property
    def is_explored_for_equals(self) -> bool:
        """Whether random configs make fields equal to what the code compares them with."""

    @property
    def taken(self) -> dict[str, Any]:
        """Keywords that the config accepts and that are not fields, with their defaults."""

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """By field, the words that older files use for its texts."""

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:
        """Return other names of fields that the config accepts, at every level."""

    @property
    def sub_configs(self) -> dict[str, str]:
        """The model type of each sub-config, by dotted path; ``""`` if it has none."""

    @property
    def optional(self) -> dict[str, str]:
        """The sub-configs that are null by default and can be given, with their model types."""

    @property
    def older_types(self) -> dict[str, dict[str, str]]:
        """By ``PATH.model_type`` of a sub-config, the model types that the config replaces."""

    @property
    def older_words(self) -> dict[str, str]:
        """Words that older configs use in lists of texts, with the current words."""

    @property
    def stated(self) -> dict[str, Any]:
        """The defaults that the config class states, before it computes other fields."""

    def prefix(self, class_name: str) -> str:
        """Return the name of the attribute in which a class holds the base model."""

    def task_classes(self) -> list[str]:
        """Return the other classes that take this config."""

    def takes_other_config(self, class_name: str) -> bool:
        """Whether a class names another config class as its own."""

    def check_class(self, class_name: str) -> None:
        """Check that this task class exists.

        Raises:
            WeighbridgeError: it does not.
        """

    def config(self, changes: Mapping[str, Any]) -> Any:
        """Return the config with these changes, and defaults elsewhere."""

    def fields(self, config: Any) -> dict[str, Any]:
        """Return the plain value of every field."""

    def fields_of_given(self) -> dict[str, Any]:
        """Return the fields of sub-configs when those are given as empty objects."""

    def knobs(self, changes: Mapping[str, Any]) -> list[Knob]:
        """Return every field that a config may set, with its value under these changes."""

    def nested(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes as nested objects, as in a JSON file."""

    def remembered(self, probe: Probe) -> tuple[dict[str, Any], SymbolicTrace]:
        """Return a probe's fields, computed from values that remember, and their trace."""

    def probe(self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True) -> Probe:
        """Build a class on the config with these changes.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """

    def parts(self, class_name: str, values: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return the parts of a class that are models of any type, by their module's path.

        Each has the path of its sub-config and the name of the auto class that the code asks.
        ``values`` are those of a JSON file.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """

    def probe_values(self, class_name: str, values: Mapping[str, Any]) -> Probe:
        """Build a class on the config with the values of a JSON file.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """

    def attend(self, config: Any, attention: str) -> Any:
        """Return a config with this implementation of attention.

        Raises:
            UsageError: no field selects the implementation, and this is not the only one.
        """

    def build(self, class_name: str, config: Any) -> nn.Module:
        """Build a class on a config, with weights.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """

    def in_files(self, class_name: str, changes: Mapping[str, Any]) -> Files | None:
        """Return what files hold for a class on this config; None if the module's own tensors.

        Raises:
            Exception: whatever the code raises.
        """

    def files(self) -> set[str]:
        """Return the files of model code that have been loaded."""
