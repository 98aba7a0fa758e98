"""Kinds of options that commands share."""

from typing import Annotated

from cyclopts import Parameter

#: A file that may be -.
File = Annotated[str, Parameter(allow_leading_hyphen=True)]
Output = Parameter(alias="-o", allow_leading_hyphen=True)
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
