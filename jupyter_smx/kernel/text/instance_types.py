"""The page of instance types: what each has, what it costs, and where that is known from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.text.pages import Page, table_page, text_page

if TYPE_CHECKING:
    from jupyter_smx.model.spec.instance import TypesListing


def types_page(found: TypesListing) -> Page:
    """List instance types: vCPUs, memory, GPUs, dollars per hour, and the sources of these."""
    rows = [
        (
            kind.name,
            str(kind.vcpus),
            f"{kind.memory_gib:g} GiB" if kind.memory_gib else "its share",
            str(kind.gpus),
            "not known" if kind.price_per_hour is None else f"${kind.price_per_hour:.4f}",
            kind.source,
            kind.hardware_source,
        )
        for kind in found.instance_types
    ]
    text, html = table_page(("TYPE", "VCPUS", "MEMORY", "GPUS", "PER HOUR", "PRICE FROM", "REST FROM"), rows)
    where = text_page(f"From {found.file}." if found.file else "The catalogue that ships with jupyter-smx.")
    return f"{text}\n{where[0]}", html + where[1]
