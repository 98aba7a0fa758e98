"""Experiments, comparisons and measurements, run from a clone: the room is no part of the installed package.

``runner`` runs cells, keeps their answers and writes pages and reports; ``contestants`` is the one list of who takes
part, ``tasks`` the data. On these stand ``reproduce`` (the documents' experiments), ``suites`` (our models beside what
you would pick) and ``sections`` (speed, memory and digits, written to ``RESULTS.md``).
"""
