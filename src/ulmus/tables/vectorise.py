"""From the columns of a file to features: the encoder of frames, with given kinds of columns."""

from ulmus.features.table_encoder import TableEncoder
from ulmus.tables.kinds import Kind


def encoder(columns: dict[str, Kind], *, prepared: bool = True) -> TableEncoder:
    """Unfitted, for columns of these kinds."""
    kinds = {name: (kind.name, kind.form) for name, kind in columns.items()}
    return TableEncoder(prepared=prepared, kinds=kinds, random_state=0)
