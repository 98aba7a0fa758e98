"""What can go wrong with sources and checkpoints; messages name the file."""


class SourceError(ValueError):
    """A file or a batch that cannot be read, or does not fit the others."""


class CheckpointError(RuntimeError):
    """A checkpoint that belongs to something else, is damaged, or cannot be written."""
