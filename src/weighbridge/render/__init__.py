"""Documents, tables and pictures in text, Markdown, LaTeX, HTML and SVG. Knows no model."""
