"""What derivation asks of the code that it runs: a model type of transformers or a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import nn

    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.reversal import Files
    from weighbridge.derive.probing.symbolic import SymbolicTrace


class Knob(NamedTuple):
    """A field of a config that can be turned: its dotted path, its default, its annotation."""

    path: str
    value: Any
    annotation: str


class Subject(Protocol):
    """Code to derive a blueprint from: its config, its classes, and what those build.

    A config is whatever `config` returns, and is given back to `fields` alone. Changes and fields
    go by dotted path.
    """

    family: str
    base_class: str

    @property
    def command(self) -> str:
        """The command that derives it."""

    @property
    def reference(self) -> str:
        """What the blueprint is held against, with its version."""

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""

    @property
    def config_name(self) -> str:
        """The name of what has the defaults."""

    @property
    def code(self) -> str:
        """The text of the modules that hold the model and its config."""

    @property
    def start(self) -> dict[str, Any]:
        """What a config must say for the base class to be built at all, or to be small enough."""

    @property
    def together(self) -> list[dict[str, Any]]:
        """Fields that can be turned together only, with values that go together."""

    @property
    def pinned(self) -> list[str]:
        """Fields to be held at their defaults: what they decide is no arithmetic."""

    @property
    def taken(self) -> dict[str, Any]:
        """Names, of no field, that the config takes, with what stands for an absent one."""

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """The words that older names have for the texts of a field, by that field."""

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:
        """Other spellings of fields that the config reads, at every level."""

    @property
    def sub_configs(self) -> dict[str, str]:
        """The model type of each sub-config, by dotted path; ``""`` where it has none."""

    @property
    def optional(self) -> dict[str, str]:
        """The sub-configs that are null by default and can be given, and the model type of each."""

    @property
    def older_words(self) -> dict[str, str]:
        """Words that older configs have in lists of texts, with what they are now."""

    @property
    def stated(self) -> dict[str, Any]:
        """What each field is by default where its class says so, before any is worked out."""

    def prefix(self, class_name: str) -> str:
        """Return the name that a class has for the base model in it."""

    def task_classes(self) -> list[str]:
        """Return the other classes that take this config."""

    def check_class(self, class_name: str) -> None:
        """See that there is another such class.

        Raises:
            WeighbridgeError: there is none.
        """

    def config(self, changes: Mapping[str, Any]) -> Any:
        """Return the config that says no more than this."""

    def fields(self, config: Any) -> dict[str, Any]:
        """Return the value of every field, remembering nothing."""

    def fields_of_given(self) -> dict[str, Any]:
        """Return what the fields of sub-configs are where those are given but say nothing."""

    def knobs(self, changes: Mapping[str, Any]) -> list[Knob]:
        """Return every field that a config may set, with the value that it has here."""

    def nested(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes as a JSON file has them."""

    def remembered(self, probe: Probe) -> tuple[dict[str, Any], SymbolicTrace]:
        """Return a probe's fields as made of values that remember, and their trace."""

    def probe(self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True) -> Probe:
        """Build a class on the config of these changes.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """

    def attend(self, config: Any, attention: str) -> Any:
        """Return a config with this implementation of attention.

        Raises:
            UsageError: it has no field that chooses one, and this is not the one that there is.
        """

    def build(self, class_name: str, config: Any) -> nn.Module:
        """Build a class on a config, with values.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """

    def in_files(self, class_name: str, changes: Mapping[str, Any]) -> Files | None:
        """Build a class on the config of these changes, and return what files hold, if other.

        Raises:
            Exception: whatever the code raises.
        """

    def files(self) -> set[str]:
        """Return the files of model code that have been loaded."""
