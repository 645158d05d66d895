"""The three forms of `build_attn_metadata` agree, and one that is wrong is found."""

import dataclasses

import pytest
import torch

from firstword.bench.seed_tables import cases, forms

CPU = torch.device("cpu")


def test_six_cases_on_which_the_forms_agree():
    assert len(cases.CASES) == 6
    assert all(cases.agree(CPU).values())


def test_slots_are_where_the_blocks_are():
    table = forms.BlockTable(torch.tensor([[3, 1], [0, 2]], dtype=torch.int32), 4)
    queries, sequences = torch.tensor([2, 3], dtype=torch.int32), torch.tensor([5, 3], dtype=torch.int32)
    for form in forms.FORMS.values():
        found = form(table, queries, sequences)
        assert found.positions.tolist() == [3, 4, 0, 1, 2]
        assert found.slot_mapping.tolist() == [15, 4, 0, 1, 2]
        assert found.query_start_loc.tolist() == [0, 2, 5]
        assert found.max_seq_len == 5


@pytest.mark.parametrize("field", ["query_start_loc", "seq_lens", "positions", "slot_mapping", "max_seq_len"])
def test_a_form_that_is_wrong_in_one_field_is_found(monkeypatch, field):
    def wrong(*batch):
        right = forms.after(*batch)
        return dataclasses.replace(right, **{field: getattr(right, field) + 1})

    monkeypatch.setitem(forms.FORMS, "after", wrong)
    assert not any(cases.agree(CPU).values())
