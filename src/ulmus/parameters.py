"""A parameter, written once: its default, what it may be, and how the documentation describes it.

An estimator names its parameters; constructor, validation and the *Parameters* section of its docstring come from
them, and *Attributes* from what it shows of its fit::

    @estimator(KERNEL | PENALTY | RUN)
    class KELMRegressor(...):
        \"\"\"...
        Parameters
        ----------
        <parameters>

        Attributes
        ----------
        <attributes>
        \"\"\"

The constructor is that of a dataclass: it stores what it is given and does nothing else, as scikit-learn wants it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from textwrap import dedent, indent, wrap
from typing import Any, TypeVar

from ulmus._sklearn import Interval, StrOptions

Estimator = TypeVar("Estimator", bound=type)
#: Parameters by name, in the order of the constructor; they add by ``|``.
Parameters = dict[str, "Parameter"]

#: Columns of a docstring.
WIDTH = 120
#: What a dataclass has beside its constructor.
_TRACES = {"__dataclass_fields__", "__dataclass_params__", "__replace__"}


@dataclass(frozen=True)
class Parameter:
    """One parameter: default, allowed values (scikit-learn's constraints), kind and description for the docs."""

    default: Any
    allowed: tuple[Any, ...]
    kind: str
    text: str = ""

    def but(self, **changes: Any) -> "Parameter":
        """The same parameter, but for some of its facts."""
        return replace(self, **changes)

    def describe(self, name: str) -> str:
        """Its entry in a numpydoc section."""
        default = f", default={_literal(self.default)}" if self.default is not None else ""
        optional = ", optional" if self.default is None and "None" not in self.kind else default
        optional = ", default=None" if self.default is None and "None" in self.kind else optional
        return entry(name, f"{self.kind}{optional}", self.text)


def entry(name: str, kind: str, text: str) -> str:
    """An entry in a numpydoc section."""
    lines = wrap(" ".join(dedent(text).split()), WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"{name} : {kind}", *(f"    {line}" for line in lines)])


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def estimator(
    parameters: Mapping[str, Parameter], *, positional: int = 0, shows: Mapping[str, Any] | None = None
) -> Callable[[Estimator], Estimator]:
    """Give a class its constructor, its validation and its documentation.

    The first ``positional`` parameters may be given by position; the others by name only. ``shows`` are descriptors of
    fitted attributes by name; those with a ``kind`` and a ``text`` are documented.
    """

    def build(cls: Estimator) -> Estimator:
        own: Any = cls
        notes = dict(vars(own).get("__annotations__", {}))
        own.__annotations__ = dict.fromkeys(parameters, Any)
        for place, (name, parameter) in enumerate(parameters.items()):
            setattr(own, name, field(default=parameter.default, kw_only=place >= positional))
        dataclass(eq=False, repr=False, match_args=False)(own)
        for trace in _TRACES & vars(own).keys():  # it has the constructor of a dataclass, and is none
            delattr(own, trace)
        own.__annotations__ = notes
        for name, view in (shows or {}).items():
            setattr(own, name, view)
        own._parameter_constraints = {name: list(parameter.allowed) for name, parameter in parameters.items()}
        text = "\n".join(parameter.describe(name) for name, parameter in parameters.items())
        own.__doc__ = (own.__doc__ or "").replace("    <parameters>", indent(text, "    "))
        views = {name: view for each in reversed(own.__mro__) for name, view in vars(each).items()}
        text = "\n".join(entry(name, v.kind, v.text) for name, v in views.items() if getattr(v, "kind", ""))
        own.__doc__ = own.__doc__.replace("    <attributes>", indent(text, "    "))
        return cls

    return build


#: What may be "auto", and numbers of one sign.
AUTO = StrOptions({"auto"})
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")

THREADS: Parameters = {
    "random_state": Parameter(
        None,
        ("random_state",),
        "int, RandomState or None",
        "Makes fits repeatable, whatever the number of threads.",
    ),
    "n_jobs": Parameter(-1, (Integral, None), "int or None", "Number of threads; -1 uses all cores."),
}
