"""Code on vectors of float32, written as LLVM's: what Numba does not offer by itself.

How wide a vector is, and how many there are registers for, follows from the processor that is
compiled for. A product and a sum may become one instruction; all else is done as it is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property, partialmethod, reduce
from types import SimpleNamespace
from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

SMALLEST = -64.0
"""Where `Writer.exp2` ends: responsibilities under 2⁻⁶⁴ of the largest are zero, to be skipped."""
F32, F64 = ir.FloatType(), ir.DoubleType()

_ROUNDING = 1.5 * 2.0**23
# Minimax polynomial of 2^y on [−1/2, 1/2], highest power first.
_POLYNOMIAL = (1.3264723e-3, 9.671513e-3, 5.5507336e-2, 0.24022242, 0.693147, 1.0)
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@cache
def vector_registers(triple: str, processor: str, features: str) -> tuple[int, int]:
    """Floats in a vector register and number of these, as LLVM compiles a sum of 16 floats."""
    module = binding.parse_assembly("""
        define void @twice(ptr %p) {
            %x = load <16 x float>, ptr %p
            %y = fadd <16 x float> %x, %x
            store <16 x float> %y, ptr %p
            ret void
        }""")
    target = binding.Target.from_triple(triple)
    code = target.create_target_machine(cpu=processor, features=features).emit_assembly(module)
    return (16, 32) if "zmm" in code else (8, 16) if "ymm" in code else (4, 16)


def vector_code(returns: Any) -> Callable[[Callable[..., Value | None]], Any]:
    """Decorate ``body(write, ...)``, which writes the code of a function of the other arguments.

    Arrays become an `Array`, named tuples have their fields as attributes, numbers are a `Value`.
    """

    def decorate(body: Callable[..., Value | None]) -> Any:
        def define(typing_context: Any, *kinds: Any) -> Any:  # noqa: ARG001
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                write = Writer(context, builder)
                result = body(write, *map(write.argument, signature.args, values))
                return context.get_dummy_value() if result is None else result.llvm

            whole = [types.int64 if isinstance(kind, types.Integer) else kind for kind in kinds]
            return returns(*whole), generate

        define.__name__ = body.__name__
        define.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]
        return intrinsic(define)

    return decorate


class Value:
    """A number or a vector of them in the code that is written, with Python's operators.

    What is no `Value` on the right takes the type of the left.
    """

    def __init__(self, builder: Any, llvm: Any) -> None:
        self.builder, self.llvm = builder, llvm

    @property
    def element(self) -> Any:
        """Type of a number in it."""
        return self.llvm.type.element if self.width else self.llvm.type

    @property
    def width(self) -> int:
        """Entries of a vector, 0 for a number."""
        return self.llvm.type.count if isinstance(self.llvm.type, ir.VectorType) else 0

    def new(self, llvm: Any) -> Value:
        """Give another value of this code."""
        return Value(self.builder, llvm)

    def _operand(self, other: Value | float) -> Any:
        if isinstance(other, Value):
            return other.llvm
        return ir.Constant(self.llvm.type, [other] * self.width if self.width else other)

    def _operation(self, other: Value | float, name: str, **options: Any) -> Value:
        prefix = "" if isinstance(self.element, ir.IntType) else "f"
        operation = getattr(self.builder, prefix + name)
        return self.new(operation(self.llvm, self._operand(other), **options))

    def _comparison(self, other: Value | float, sign: str) -> Value:
        whole = isinstance(self.element, ir.IntType)
        compare = self.builder.icmp_signed if whole else self.builder.fcmp_ordered
        return self.new(compare(sign, self.llvm, self._operand(other)))

    __add__ = partialmethod(_operation, name="add")
    __sub__ = partialmethod(_operation, name="sub")
    __mul__ = partialmethod(_operation, name="mul")
    __floordiv__ = partialmethod(_operation, name="udiv")
    __and__ = partialmethod(_operation, name="and_")
    __or__ = partialmethod(_operation, name="or_")
    __lshift__ = partialmethod(_operation, name="shl")
    __lt__ = partialmethod(_comparison, sign="<")
    __gt__ = partialmethod(_comparison, sign=">")
    __ge__ = partialmethod(_comparison, sign=">=")
    differs = partialmethod(_comparison, sign="!=")

    def times_plus(self, factor: Value | float, term: Value) -> Value:
        """Give self · factor + term, rounded once where the processor can."""
        product = self._operation(factor, "mul", flags=("contract",))
        return product._operation(term, "add", flags=("contract",))

    def larger(self, other: Value) -> Value:
        """Give the larger of two, entry by entry."""
        return (self > other).choose(self, other)

    def choose(self, yes: Value, no: Value) -> Value:
        """Give ``yes`` where this condition holds, and ``no`` elsewhere."""
        return self.new(self.builder.select(self.llvm, yes.llvm, no.llvm))

    def to(self, kind: Any) -> Value:
        """Give the same in float32 or float64."""
        if kind == self.element:
            return self
        convert = self.builder.fpext if kind == F64 else self.builder.fptrunc
        return self.new(convert(self.llvm, ir.VectorType(kind, self.width) if self.width else kind))

    def bits(self, kind: Any) -> Value:
        """Give the same bits as a vector of another kind of number."""
        return self.new(self.builder.bitcast(self.llvm, ir.VectorType(kind, self.width)))

    def filled(self, width: int) -> Value:
        """Give a vector whose entries are all this number."""
        vector = ir.Constant(ir.VectorType(self.element, 1), ir.Undefined)
        vector = self.builder.insert_element(vector, self.llvm, _I32(0))
        mask = ir.Constant(ir.VectorType(_I32, width), [0] * width)
        return self.new(self.builder.shuffle_vector(vector, vector, mask))

    def _call(self, name: str, result: Any, *arguments: Any, **options: Any) -> Value:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        bits = 32 if self.element == F32 else 64
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.{name}.v{self.width}f{bits}"
        )
        return self.new(self.builder.call(function, arguments, **options))

    def floor(self) -> Value:
        """Give the next lower whole number of each entry."""
        return self._call("floor", self.llvm.type, self.llvm)

    def total(self) -> Value:
        """Add the entries of a vector."""
        nothing = ir.Constant(self.element, -0.0)
        return self._call(
            "vector.reduce.fadd", self.element, nothing, self.llvm, fastmath=("reassoc",)
        )


class Array:
    """A contiguous array: numbers and vectors are read and written at a place in it."""

    def __init__(self, write: Writer, kind: Any, llvm: Any) -> None:
        self._write = write
        self._array = write.context.make_array(kind)(write.context, write.builder, llvm)
        self._data = self._array.data

    @property
    def element(self) -> Any:
        """Type of its numbers."""
        return self._data.type.pointee

    @cached_property
    def shape(self) -> list[Value]:
        """Its lengths."""
        builder = self._write.builder
        return [Value(builder, n) for n in cgutils.unpack_tuple(builder, self._array.shape)]

    def number(self, at: Value) -> Value:
        """Load one number."""
        return at.new(at.builder.load(at.builder.gep(self._data, [at.llvm])))

    def _address(self, at: Value, kind: Any) -> Any:
        return at.builder.bitcast(at.builder.gep(self._data, [at.llvm]), kind.as_pointer())

    def vector(self, at: Value, width: int = 0) -> Value:
        """Load consecutive numbers."""
        kind = ir.VectorType(self.element, width or self._write.width)
        return at.new(at.builder.load(self._address(at, kind), align=4))

    def spread(self, at: Value, width: int = 0) -> Value:
        """Load one number into all entries of a vector."""
        return self.number(at).filled(width or self._write.width)

    def put(self, at: Value, value: Value) -> None:
        """Store a number or consecutive ones."""
        at.builder.store(value.llvm, self._address(at, value.llvm.type), align=4)

    def increase(self, at: Value, value: Value) -> None:
        """Add a number, or a vector, to what is there."""
        there = self.vector(at, value.width) if value.width else self.number(at)
        self.put(at, there + value.to(self.element))


class Loop:
    """Write ``for i in range(first, last, step)`` by a ``with`` block that is given i.

    ``sums`` run along: the block sets them anew, and behind it they are what was set last.
    """

    def __init__(
        self, builder: Any, first: Value, last: Value, step: int, sums: Sequence[Value]
    ) -> None:
        self._builder, self._first, self._last, self._step = builder, first, last, step
        self.sums = list(sums)

    def __enter__(self) -> Value:
        builder, self._starts = self._builder, self.sums
        self._before = builder.block
        self._inside, self._after = (builder.append_basic_block(name) for name in ("loop", "done"))
        builder.cbranch((self._first < self._last).llvm, self._inside, self._after)
        builder.position_at_end(self._inside)
        self._i = Value(builder, builder.phi(_I64))
        self._running = self._phis()
        self.sums = list(self._running)
        return self._i

    def __exit__(self, *failure: object) -> None:
        builder, updated = self._builder, self.sums
        following, end = self._i + self._step, builder.block
        builder.cbranch((following < self._last).llvm, self._inside, self._after)
        self._i.llvm.add_incoming(self._first.llvm, self._before)
        self._i.llvm.add_incoming(following.llvm, end)
        builder.position_at_end(self._after)
        self.sums = self._phis()
        for phis in (self._running, self.sums):
            for phi, start, new in zip(phis, self._starts, updated, strict=True):
                phi.llvm.add_incoming(start.llvm, self._before)
                phi.llvm.add_incoming(new.llvm, end)

    def _phis(self) -> list[Value]:
        builder = self._builder
        return [Value(builder, builder.phi(start.llvm.type)) for start in self._starts]


class Writer:
    """Writes vector code at the place where Numba's builder stands."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder
        self.width, self.registers = vector_registers(*context.codegen().magic_tuple())

    def argument(self, kind: Any, llvm: Any) -> Any:
        """Give an argument of Numba's in the form of `vector_code`."""
        if isinstance(kind, types.Array):
            return Array(self, kind, llvm)
        if not isinstance(kind, types.NamedTuple):
            return Value(self.builder, llvm)
        parts = (self.builder.extract_value(llvm, i) for i in range(len(kind)))
        fields = zip(kind.fields, map(self.argument, kind.types, parts), strict=True)
        return SimpleNamespace(**dict(fields))

    def constant(self, value: float, width: int | None = None, kind: Any = F32) -> Value:
        """Give a vector of a constant, or a number if the width is 0."""
        width = self.width if width is None else width
        vector = ir.VectorType(kind, width)
        return Value(
            self.builder,
            ir.Constant(vector, [value] * width) if width else ir.Constant(kind, value),
        )

    def joined(self, numbers: Sequence[Value]) -> Value:
        """Give a vector of these numbers."""
        result = ir.Constant(ir.VectorType(numbers[0].element, len(numbers)), ir.Undefined)
        for i, number in enumerate(numbers):
            result = self.builder.insert_element(result, number.llvm, _I32(i))
        return Value(self.builder, result)

    def sum(self, values: Sequence[Value]) -> Value:
        """Add numbers or vectors in order."""
        return reduce(Value.__add__, values)

    def exp2(self, x: Value) -> Value:
        """Give 2^x for x up to 1, right to 2e-7 and 0 up to 2⁻⁶⁴, without branches."""
        # In numbers of this size the last bit is 1: x is rounded, and its bits end in the integer.
        shifted = x + _ROUNDING
        rest = x - (shifted - _ROUNDING)
        power = self.constant(_POLYNOMIAL[0])
        for coefficient in _POLYNOMIAL[1:]:
            power = power.times_plus(rest, self.constant(coefficient))
        scaled = (power.bits(_I32) + (shifted.bits(_I32) << 23)).bits(F32)
        return (x > SMALLEST).choose(scaled, self.constant(0.0))

    def loop(
        self, first: Value | int, last: Value | int, step: int = 1, sums: Sequence[Value] = ()
    ) -> Loop:
        """Give a `Loop` from first to last."""
        begin, end = (
            bound if isinstance(bound, Value) else Value(self.builder, _I64(bound))
            for bound in (first, last)
        )
        return Loop(self.builder, begin, end, step, sums)

    def when(self, condition: Value) -> AbstractContextManager[Any]:
        """Write a ``with`` block that is done only if the condition holds."""
        context: AbstractContextManager[Any] = self.builder.if_then(condition.llvm)
        return context

    def either(
        self, condition: Value, branch: Callable[[bool], Sequence[Value] | None]
    ) -> list[Value]:
        """Write ``branch(True) if condition else branch(False)`` and give what they give."""
        branches = []
        with self.builder.if_else(condition.llvm) as contexts:
            for context, holds in zip(contexts, (True, False), strict=True):
                with context:
                    branches.append((branch(holds) or (), self.builder.block))
        results = [Value(self.builder, self.builder.phi(v.llvm.type)) for v in branches[0][0]]
        for values, block in branches:
            for result, value in zip(results, values, strict=True):
                result.llvm.add_incoming(value.llvm, block)
        return results
