"""Feature maps: from a block of rows to a block of features."""
