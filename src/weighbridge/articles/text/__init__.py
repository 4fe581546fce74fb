"""The text of an article: its lines without markup, its tokens, operators put back."""
