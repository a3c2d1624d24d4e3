"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def table(rows: Mapping[str, str]) -> str:
    """A small table with one label and one text per row."""
    cell = '<td style="text-align: left">'
    lines = (
        f"<tr>{cell}<b>{escape(label)}</b></td>{cell}{escape(text)}</td></tr>" for label, text in rows.items()
    )
    return f"<table>{''.join(lines)}</table>"
