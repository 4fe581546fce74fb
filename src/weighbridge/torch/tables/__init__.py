"""Tables as people have them: CSV, TSV and JSON lines, in the encodings of spreadsheets.

`encodings` turns bytes into text, `table` turns text into records, and `columns` finds the column
of texts and that of labels. `labelling` has a classifier label a table.
"""
