"""Code on vectors of float32, written as LLVM's: what Numba does not offer by itself.

How wide a vector is, and how many there are registers for, follows from the processor that is
compiled for. A product and a sum may become one instruction; all else is done as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from types import SimpleNamespace
from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

SMALLEST = -64.0
"""Where `Writer.exp2` ends: responsibilities under 2⁻⁶⁴ of the largest are zero, to be skipped."""

_ROUNDING = 1.5 * 2.0**23
# Minimax polynomial of 2^y on [−1/2, 1/2], highest power first.
_POLYNOMIAL = (1.3264723e-3, 9.671513e-3, 5.5507336e-2, 0.24022242, 0.693147, 1.0)
_F32, _F64, _I32, _I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)

Value = Any
Sums = list[Value]


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


class Writer:
    """Writes vector code at the place where Numba's builder stands."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder
        self.width, self.registers = vector_registers(*context.codegen().magic_tuple())

    def array(self, kind: Any, value: Value) -> Any:
        """Give an array with its ``data`` (contiguous) and ``shape``."""
        return self.context.make_array(kind)(self.context, self.builder, value)

    def fields(self, kind: Any, value: Value) -> SimpleNamespace:
        """Give where the numbers of every array in a named tuple begin."""
        return SimpleNamespace(
            **{
                name: self.array(field, self.builder.extract_value(value, i)).data
                for i, (name, field) in enumerate(zip(kind.fields, kind.types, strict=True))
                if isinstance(field, types.Array)
            }
        )

    def field(self, kind: Any, value: Value, name: str) -> Value:
        """Give one entry of a named tuple."""
        return self.builder.extract_value(value, kind.fields.index(name))

    def shape(self, kind: Any, value: Value, name: str) -> list[Value]:
        """Give the lengths of an array in a named tuple."""
        field = kind.types[kind.fields.index(name)]
        return self.shape_of(self.array(field, self.field(kind, value, name)))

    def shape_of(self, array: Any) -> list[Value]:
        """Give the lengths of an array."""
        return list(cgutils.unpack_tuple(self.builder, array.shape))

    def later(self, i: Value, number: int) -> Value:
        """Give an index that is larger by a constant."""
        return self.builder.add(i, _I64(number)) if number else i

    def index(self, row: Value, length: Value | int, column: Value) -> Value:
        """Give the place of an entry in a matrix with rows of that length."""
        length = _I64(length) if isinstance(length, int) else length
        return self.builder.add(self.builder.mul(row, length), column)

    def number(self, base: Value, at: Value) -> Value:
        """Load one number."""
        return self.builder.load(self.builder.gep(base, [at]))

    def vector(self, base: Value, at: Value, width: int = 0, kind: Any = _F32) -> Value:
        """Load consecutive numbers."""
        vector = ir.VectorType(kind, width or self.width)
        address = self.builder.bitcast(self.builder.gep(base, [at]), vector.as_pointer())
        return self.builder.load(address, align=4)

    def put(self, value: Value, base: Value, at: Value) -> None:
        """Store a number or consecutive ones."""
        address = self.builder.bitcast(self.builder.gep(base, [at]), value.type.as_pointer())
        self.builder.store(value, address, align=4)

    def constant(self, value: float, width: int = 0, kind: Any = _F32) -> Value:
        """Give a vector of a constant."""
        width = width or self.width
        return ir.Constant(ir.VectorType(kind, width), [value] * width)

    def joined(self, numbers: Sequence[Value]) -> Value:
        """Give a vector of these numbers."""
        result = ir.Constant(ir.VectorType(numbers[0].type, len(numbers)), ir.Undefined)
        for i, number in enumerate(numbers):
            result = self.builder.insert_element(result, number, _I32(i))
        return result

    def filled(self, number: Value, width: int = 0) -> Value:
        """Give a vector whose entries are all one number."""
        width = width or self.width
        first = self.joined([number])
        mask = ir.Constant(ir.VectorType(_I32, width), [0] * width)
        return self.builder.shuffle_vector(first, first, mask)

    def spread(self, base: Value, at: Value, width: int = 0) -> Value:
        """Load one number into all entries of a vector."""
        return self.filled(self.number(base, at), width)

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        """Give a · b + c, rounded once where the processor can."""
        product = self.builder.fmul(a, b, flags=("contract",))
        return self.builder.fadd(product, c, flags=("contract",))

    def larger(self, a: Value, b: Value) -> Value:
        """Give the larger of two, entry by entry."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def sum(self, values: Sequence[Value]) -> Value:
        """Add numbers or vectors in order."""
        return reduce(self.builder.fadd, values)

    def floor(self, x: Value) -> Value:
        kind = ir.FunctionType(x.type, [x.type])
        name = f"llvm.floor.v{x.type.count}f32"
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, name), [x]
        )

    def entries(self, vector: Value) -> Value:
        """Add the entries of a vector."""
        number = vector.type.element
        kind = ir.FunctionType(number, [number, vector.type])
        name = f"llvm.vector.reduce.fadd.v{vector.type.count}f{32 if number == _F32 else 64}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [number(-0.0), vector], fastmath=("reassoc",))

    def increase(self, base: Value, at: Value, value: Value) -> None:
        """Add a float32, or a vector of them, to the float64 numbers at a place."""
        if isinstance(value.type, ir.VectorType):
            there = self.vector(base, at, value.type.count, _F64)
        else:
            there = self.number(base, at)
        self.put(self.builder.fadd(there, self.builder.fpext(value, there.type)), base, at)

    def exp2(self, x: Value) -> Value:
        """Give 2^x for x up to 1, right to 2e-7 and 0 up to 2⁻⁶⁴, without branches."""
        builder = self.builder
        integers = ir.VectorType(_I32, self.width)
        # In numbers of this size the last bit is 1: x is rounded, and its bits end in the integer.
        shifted = builder.fadd(x, self.constant(_ROUNDING))
        rest = builder.fsub(x, builder.fsub(shifted, self.constant(_ROUNDING)))
        power = self.constant(_POLYNOMIAL[0])
        for coefficient in _POLYNOMIAL[1:]:
            power = self.fused(power, rest, self.constant(coefficient))
        exponent = builder.shl(
            builder.bitcast(shifted, integers), ir.Constant(integers, [23] * self.width)
        )
        scaled = builder.bitcast(builder.add(builder.bitcast(power, integers), exponent), x.type)
        large = builder.fcmp_ordered(">", x, self.constant(SMALLEST))
        return builder.select(large, scaled, self.constant(0.0))

    def loop(
        self,
        first: Value,
        last: Value,
        step: int,
        body: Callable[..., Sums | None],
        sums: Sums | None = None,
    ) -> Sums:
        """Write ``for i in range(first, last, step): sums = body(i, *sums)`` and give the sums."""
        builder, sums = self.builder, sums or []
        before = builder.block
        inside, after = (builder.append_basic_block(name) for name in ("loop", "done"))
        builder.cbranch(builder.icmp_signed("<", first, last), inside, after)
        builder.position_at_end(inside)
        i = builder.phi(_I64)
        running = [builder.phi(value.type) for value in sums]
        updated = body(i, *running) or []
        following, end = self.later(i, step), builder.block
        builder.cbranch(builder.icmp_signed("<", following, last), inside, after)
        i.add_incoming(first, before)
        i.add_incoming(following, end)
        builder.position_at_end(after)
        results = [builder.phi(value.type) for value in sums]
        for start, phi, new, result in zip(sums, running, updated, results, strict=True):
            for place in (phi, result):
                place.add_incoming(start, before)
                place.add_incoming(new, end)
        return results

    def either(
        self, condition: Value, yes: Callable[[], Sums | None], no: Callable[[], Sums | None]
    ) -> Sums:
        """Write ``yes() if condition else no()`` and give the sums."""
        builder, branches = self.builder, []
        with builder.if_else(condition) as contexts:
            for context, branch in zip(contexts, (yes, no), strict=True):
                with context:
                    branches.append((branch() or [], builder.block))
        results = [builder.phi(value.type) for value in branches[0][0]]
        for values, block in branches:
            for result, value in zip(results, values, strict=True):
                result.add_incoming(value, block)
        return results
