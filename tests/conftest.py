"""Settings of the test run."""

from hypothesis import settings

# Properties are tried on the same examples in every run, however slow the machine is.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("steady")
