"""Properties that are tried on drawn cases, for minutes or hours; see docs/trust.md.

A harness is a module with ``check(seed) -> key``: it draws one case, raises when the property does not hold for it,
and says in a word what kind of case it was. Modules are found by themselves.
"""
