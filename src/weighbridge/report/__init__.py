"""Ledgers to terminal, JSON, Markdown, LaTeX and HTML, in English and Chinese. No arithmetic."""
