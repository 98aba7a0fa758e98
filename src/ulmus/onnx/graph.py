"""A graph under construction: operators are methods, numbers and arrays become constants."""

from collections.abc import Callable
from typing import Any

import numpy as np

#: The operator set, and the lowest format version that carries it.
OPSET = 19
IR_VERSION = 9
#: The domain of operators for trees, and its operator set.
ML, ML_OPSET = "ai.onnx.ml", 3
#: Bytes that a file in this format can hold.
LARGEST = 2**31


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError('export needs onnx; get it with pip install "ulmus[onnx]"') from error
    return onnx


class Graph:
    """Collects nodes; ``g.Exp(x)`` adds an operator of that name and returns the name of its result.

    Real numbers and arrays given as arguments become constants of the type ``dtype``, in which the graph computes.

    A constant factor must not stand directly before or behind a matrix product: ONNX Runtime fuses the two, and keeps
    the factor as a float32, in a double-precision graph too. Multiply it into a constant matrix instead.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.domains: dict[str, int] = {"": OPSET}
        self._count = 0

    def name(self, stem: str) -> str:
        """A name that is not yet taken."""
        self._count += 1
        return f"{stem}_{self._count}"

    def __getattr__(self, operator: str) -> Callable[..., str]:
        if not operator[:1].isupper():
            raise AttributeError(operator)

        def add(*arguments: Any, **attributes: Any) -> str:
            result = self.name(operator)
            self.node(operator, [self.value(a) for a in arguments], [result], **attributes)
            return result

        return add

    def node(self, operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        """An operator with any number of results."""
        if attributes.get("domain") == ML:
            self.domains.setdefault(ML, ML_OPSET)
        self.nodes.append(_onnx().helper.make_node(operator, inputs, outputs, **attributes))

    def value(self, argument: Any) -> str:
        """The name of an argument: itself, or that of a new constant."""
        if isinstance(argument, str):
            return argument
        array = np.asarray(argument)
        if array.dtype.kind != "f":
            return self.constant(array)
        return self.constant(np.atleast_2d(array).astype(self.dtype))

    def constant(self, array: np.ndarray) -> str:
        """A constant of the type of the array."""
        name = self.name("constant")
        self.constants.append(self.tensor(array, name))
        return name

    @staticmethod
    def tensor(array: np.ndarray, name: str = "") -> Any:
        """An array as ONNX holds it."""
        if array.dtype.kind in "UO":
            array = array.astype(object)
        return _onnx().numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def cast(self, x: str, dtype: Any) -> str:
        return self.Cast(x, to=_onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def number(self, x: str) -> str:
        """As a number of the type in which the graph computes."""
        return self.cast(x, self.dtype)

    def join(self, *parts: str) -> str:
        """Columns beside each other."""
        return parts[0] if len(parts) == 1 else self.Concat(*parts, axis=1)

    def columns(self, x: str, which: Any) -> str:
        """Some columns of a matrix."""
        return self.Gather(x, self.integers(*which), axis=1)

    def squared_norms(self, U: str) -> str:
        """One column: the squared norm of every row."""
        return self.ReduceSum(self.Mul(U, U), self.integers(1), keepdims=1)

    def rows_of(self, x: str, columns: int, fill: float = 0.0) -> str:
        """A matrix of one number, with as many rows as ``x``."""
        shape = self.Concat(self.Shape(x, start=0, end=1), self.integers(columns), axis=0)
        return self.Expand(float(fill), shape)

    def distances(self, U: str, V: np.ndarray | str, *, squared: bool) -> str:
        """Sums over features of ``(u − v)²`` or ``|u − v|``, one feature at a time: no digits cancel."""
        h, kind = _onnx().helper, _onnx().helper.np_dtype_to_tensor_dtype(self.dtype)
        width = None if isinstance(V, str) else len(V)
        across = self.Transpose(V) if isinstance(V, str) else self.value(V.T)
        body = h.make_graph(
            [
                h.make_node("Unsqueeze", ["u", "last"], ["column"]),
                h.make_node("Sub", ["column", "v"], ["difference"]),
                h.make_node("Mul", ["difference"] * 2, ["term"])
                if squared
                else h.make_node("Abs", ["difference"], ["term"]),
                h.make_node("Add", ["sum", "term"], ["new_sum"]),
            ],
            "distance",
            [h.make_tensor_value_info(n, kind, s) for n, s in (("sum", [None, width]), ("u", [None]), ("v", [width]))],
            [h.make_tensor_value_info("new_sum", kind, [None, width])],
            [_onnx().numpy_helper.from_array(np.array([1], np.int64), "last")],
        )
        shape = self.Concat(self.Shape(U, start=0, end=1), self.Shape(across, start=1, end=2), axis=0)
        return self.Scan(self.Expand(0.0, shape), self.Transpose(U), across, body=body, num_scan_inputs=2)

    def loop(self, times: str, start: str, width: int, step: Callable[[str, str], str]) -> str:
        """``start``, of ``width`` columns, after this many steps; a step is given its number, as a vector of one."""
        h = _onnx().helper
        number, go, state, went = (self.name(n) for n in ("number", "go", "state", "went"))
        outside, self.nodes = self.nodes, []
        after = step(self.Reshape(number, self.integers(1)), state)
        self.node("Identity", [go], [went])
        inside, self.nodes = self.nodes, outside
        truth, real = _onnx().TensorProto.BOOL, _kind(self.dtype)
        body = h.make_graph(
            inside,
            "step",
            [
                h.make_tensor_value_info(number, _onnx().TensorProto.INT64, []),
                h.make_tensor_value_info(go, truth, []),
                h.make_tensor_value_info(state, real, [None, width]),
            ],
            [h.make_tensor_value_info(went, truth, []), h.make_tensor_value_info(after, real, [None, width])],
        )
        return self.Loop(times, self.constant(np.array(True)), start, body=body)

    def arcsin(self, x: str, unit: float) -> str:
        """``unit`` times the arc sine.

        Runtimes have it in single precision; two Newton steps make it double. Above 0.7 it is π/2 − 2 asin z, with
        ``z = √((1 − |x|)/2)``, so that the slope of the sine stays away from 0.
        """
        size = self.Min(self.Abs(x), 1.0)
        large = self.Greater(size, 0.7)
        z = self.Where(large, self.Sqrt(self.Mul(self.Sub(1.0, size), 0.5)), size)
        y = self.number(self.Asin(self.cast(z, np.float32)))
        for _ in range(2):
            y = self.Sub(y, self.Div(self.Sub(self.Sin(y), z), self.Cos(y)))
        y = self.Mul(y, unit)
        return self.Mul(self.Sign(x), self.Where(large, self.Sub(unit * np.pi / 2, self.Mul(y, 2.0)), y))

    def solve_lower_transposed(self, K: str, R: np.ndarray, block: int = 32) -> str:
        """``K R⁻ᵀ`` by forward substitution in blocks, which keeps the digits that an inverse of ``R`` would lose."""
        done: list[str] = []
        for start in range(0, len(R), block):
            now = slice(start, min(start + block, len(R)))
            part = self.Slice(K, self.integers(now.start), self.integers(now.stop), self.integers(1))
            if done:
                part = self.Sub(part, self.MatMul(self.join(*done), R[now, :start].T))
            done.append(self.MatMul(part, np.linalg.inv(R[now, now]).T))
        return self.join(*done)

    def inline(self, model: Any, arguments: dict[str, str]) -> str:
        """Put the nodes of another model here; the name of its first output."""
        onnx, prefix = _onnx(), self.name("part") + "_"
        model = onnx.compose.add_prefix(model, prefix)
        for domain in model.opset_import:
            self.domains.setdefault(domain.domain, domain.version)
        for name, given in arguments.items():
            self.nodes.append(onnx.helper.make_node("Identity", [given], [prefix + name]))
        self.nodes += model.graph.node
        self.constants += model.graph.initializer
        return str(model.graph.output[0].name)

    def declare(self, name: str, dtype: Any, shape: list[int | None]) -> str:
        """An input."""
        helper = _onnx().helper
        self.inputs.append(helper.make_tensor_value_info(name, _kind(dtype), shape))
        return name

    def result(self, value: str, name: str, dtype: Any, shape: list[int | None]) -> None:
        """An output."""
        helper = _onnx().helper
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, _kind(dtype), shape))

    def model(self, **metadata: str) -> Any:
        """The finished, checked model, without what no output needs."""
        onnx = _onnx()
        used = {output.name for output in self.outputs}
        nodes = []
        for node in reversed(self.nodes):
            if used.intersection(node.output):
                used.update(_read_by(node))
                nodes.append(node)
        inputs, constants = ([part for part in some if part.name in used] for some in (self.inputs, self.constants))
        size = sum(c.ByteSize() for c in constants)
        if size > LARGEST:
            raise ValueError(
                f"the model holds {size / 1e9:.2g} GB and an ONNX file can hold 2; a smaller max_memory, fewer "
                "landmarks or fewer rows make a smaller model"
            )
        graph = onnx.helper.make_graph(nodes[::-1], "ulmus", inputs, self.outputs, constants)
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="ulmus")
        onnx.helper.set_model_props(model, metadata)
        check(model)
        return model


def check(model: Any) -> None:
    """The checker of ONNX, with types and shapes."""
    _onnx().checker.check_model(model, full_check=True)


def _read_by(node: Any) -> set[str]:
    """Names that a node reads, inside its own graphs too."""
    inner = [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return set(node.input).union(*map(_read_by, inner))


def _kind(dtype: Any) -> int:
    onnx = _onnx()
    if np.dtype(dtype).kind in "UO":
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
