"""The basket of the scoreboard: the models of ``scoreboard.toml``, each as a folder with a config.

A config is a file of ``tests/data`` where there is one, else the fields of the catalogue, of which
this reads the file and nothing else. No tool's code is needed.
"""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
CATALOGUE = ROOT / "src" / "weighbridge" / "data" / "facts" / "models.toml"
_NOT_WRITTEN = ("auto_map", "quantization_config")
FILES = {"real.tsv": "real", "truth.tsv": "configs"}


class Model(NamedTuple):
    """A model of the basket: its name, what kind it is of, its config, and where that is from."""

    name: str
    kind: str
    config: dict[str, Any]
    source: str

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return self.name.replace("/", "__")


def basket(listed: dict[str, list[str]]) -> list[Model]:
    """Return the models that are listed by their kinds.

    Raises:
        SystemExit: a name is in no table, or listed twice.
    """
    files = _files()
    catalogue = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    found: dict[str, Model] = {}
    for kind, names in listed.items():
        for name in names:
            if name in found:
                raise SystemExit(f"scoreboard.toml lists {name} twice")
            found[name] = _model(name, kind, files, catalogue)
    return list(found.values())


def _files() -> dict[str, Path]:
    found = {}
    for table, folder in FILES.items():
        with (DATA / table).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                found[row["model_id"]] = DATA / folder / row["file"]
    return found


def _model(name: str, kind: str, files: dict[str, Path], catalogue: dict[str, Any]) -> Model:
    if name in files:
        path = files[name]
        config = json.loads(path.read_text(encoding="utf-8"))
        return Model(name, kind, config, path.relative_to(ROOT).as_posix())
    if name in catalogue:
        entry = catalogue[name]
        config = {"model_type": entry["family"], "architectures": [entry["class"]]}
        config |= entry["config"] | dict.fromkeys(entry.get("null", ()))
        return Model(name, kind, config, CATALOGUE.relative_to(ROOT).as_posix())
    raise SystemExit(f"scoreboard.toml lists {name}, which has no config in tests/data or facts")


def written(models: list[Model], folder: Path) -> list[Path]:
    """Write each config into a folder of its own, and return those folders.

    Code of a model's own is not named, so that every tool uses the class of transformers, nor how
    the released weights are packed: what is counted is that class.
    """
    folders = []
    for model in models:
        own = folder / model.folder
        own.mkdir(parents=True, exist_ok=True)
        config = {key: value for key, value in model.config.items() if key not in _NOT_WRITTEN}
        (own / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        folders.append(own)
    return folders
