"""The adversary of weighbridge; `tools/attack.py` runs it.

It shares no code with derivation: what derivation overlooks, the adversary must not overlook for
the same reason. `sources` reads the code of transformers, `starts` lists configs to begin with,
`mutations` change them, `forms` write them as people do, `reference` counts with transformers,
`verdicts` compares, `shrinking` reduces what differs to a few fields, `report` prints.
"""
