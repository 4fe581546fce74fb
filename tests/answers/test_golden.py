"""Golden ledgers show every change, byte for byte; only the reference shows what is correct.

`python tests/answers/test_golden.py` rewrites them. test_reference.py compares such ledgers with
transformers, tensor by tensor; here the totals of these ledgers are compared with the counts of
transformers.
"""

import csv
from pathlib import Path

import pytest

from weighbridge import weigh

FOLDER = Path(__file__).parents[1] / "golden"
# For each file: model, class, fields, and the total (transformers 5.23.0, meta device).
GOLDEN = {
    "bert-base-chinese.BertModel": ("bert-base-chinese", "BertModel", {}, 102_267_648),
    "bert-base-uncased.BertForPreTraining": (
        "bert-base-uncased",
        "BertForPreTraining",
        {},
        110_106_428,
    ),
    "bert-tiny.BertForMaskedLM": ("bert-tiny", "BertForMaskedLM", {}, 4_416_698),
    "bert-tiny.BertLMHeadModel.decoder": (
        "bert-tiny",
        "BertLMHeadModel",
        {"is_decoder": True, "add_cross_attention": True},
        4_549_306,
    ),
}


def written(name):
    model, class_name, fields, _ = GOLDEN[name]
    return weigh(model, class_name, fields=fields).csv("tensor").encode()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_ledger_is_unchanged(name):
    assert (FOLDER / f"{name}.csv").read_bytes() == written(name)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_ledger_adds_up_to_the_references_total(name):
    with open(FOLDER / f"{name}.csv", newline="") as file:
        assert sum(int(row["parameters"]) for row in csv.DictReader(file)) == GOLDEN[name][-1]


def test_no_golden_ledger_is_an_orphan():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.csv" for name in GOLDEN}


if __name__ == "__main__":
    for golden in GOLDEN:
        (FOLDER / f"{golden}.csv").write_bytes(written(golden))
