"""Reads pickles from strangers without running anything they ask for.

A pickle is a small program that builds values. Here its instructions are interpreted by this
module alone, on a stack of plain values: numbers, text, bytes, lists, dictionaries. What a program
wants to import stays a name. Which names may be called, and what that gives, is decided by the
subclass for a kind of file; everything else is refused by name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pivec.errors import BadPolicyFile
from pivec.reading import Budget

MAX_OPCODES = 1_000_000


@dataclass(frozen=True)
class Name:
    """Something the pickle wants imported. It stays a name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Mark:
    """The pickle's MARK on the stack."""


class Interpreter:
    """Runs the instructions of one pickle on a stack of plain values.

    Parameters
    ----------
    name : str
        What error messages call the file.
    budget : Budget
        Values count that a program may ask for again and again.
    """

    def __init__(self, name: str, budget: Budget) -> None:
        self.name, self.budget = name, budget
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def fail(self, what: str) -> BadPolicyFile:
        """Make the error that tells why the file is refused."""
        return BadPolicyFile(f"{self.name} was refused: {what}.")

    def call(self, function: Any, arguments: Any) -> Any:
        """Give what calling a name would give, or refuse."""
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise self.fail("its pickle is damaged (it calls what is no function)")
        raise self.fail(f"it asks to run {str(function)[:100]}")

    def new(self, kind: Any, arguments: Any) -> Any:  # noqa: ARG002 - subclasses use it
        """Give what a new object of a class would be, or refuse."""
        # Only names are printed: printing nested values of a stranger can take for ever.
        what = f" for {kind}" if isinstance(kind, Name) else ""
        raise self.fail(f"its pickle uses the instruction NEWOBJ{what[:100]}")

    def build(self, target: Any, state: Any) -> Any:  # noqa: ARG002 - subclasses use it
        """Give ``target`` with its state set, or refuse."""
        raise self.fail("it asks to set the state of an object")

    def persistent(self, identity: Any) -> Any:  # noqa: ARG002 - subclasses use it
        """Give what a reference to something outside of the pickle stands for, or refuse."""
        raise self.fail("a reference to its numbers is not understood")

    def key(self, key: Any) -> Any:
        """Give a key of a dictionary, or refuse it."""
        if not isinstance(key, str | int):
            raise self.fail("a dictionary has keys that are neither text nor numbers")
        return key

    def instructions(self, program: bytes | bytearray) -> Iterator[tuple[str, Any]]:
        """Decode the program, one instruction and its argument at a time."""
        stream = pickletools.genops(program)
        for _ in range(MAX_OPCODES):
            try:
                opcode, argument, _position = next(stream)
            except StopIteration:
                return
            except Exception as error:  # genops decodes arguments, each with errors of its own
                raise self.fail(f"its pickle is damaged ({error})") from error
            yield opcode.name, argument
        raise self.fail(f"its pickle has more than {MAX_OPCODES} instructions")

    def run(self, program: bytes | bytearray) -> Any:
        """Give the value that the program builds."""
        for name, argument in self.instructions(program):
            if name == "STOP":
                if len(self.stack) != 1:
                    raise self.fail("its pickle is damaged (values are left over)")
                return self.stack[0]
            self.step(name, argument)
        raise self.fail("its pickle is damaged (it has no end)")

    def pop(self) -> Any:
        """Take a value off the stack."""
        if not self.stack or isinstance(self.stack[-1], Mark):
            raise self.fail("its pickle is damaged (a value is missing)")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Take all values above the last mark off the stack, in order."""
        items: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if isinstance(value, Mark):
                return items[::-1]
            items.append(value)
        raise self.fail("its pickle is damaged (a mark is missing)")

    def step(self, name: str, argument: Any) -> None:
        """Do one instruction."""
        stack = self.stack
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(Mark())
            case "NONE":
                stack.append(None)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(name == "NEWTRUE")
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "LONG4" | "BINFLOAT":
                stack.append(argument)
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8":
                stack.append(argument)
            case "BINBYTES" | "SHORT_BINBYTES" | "BINBYTES8" | "BYTEARRAY8":
                stack.append(bytes(argument))
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                values = [self.pop() for _ in range(int(name[-1]))]
                stack.append(tuple(values[::-1]))
            case "TUPLE":
                stack.append(tuple(self.pop_to_mark()))
            case "EMPTY_LIST":
                stack.append([])
            case "APPEND" | "APPENDS":
                items = [self.pop()] if name == "APPEND" else self.pop_to_mark()
                self.top(list).extend(items)
            case "EMPTY_DICT":
                stack.append({})
            case "SETITEM":
                value, key = self.pop(), self.pop()
                self.set_items([key, value])
            case "SETITEMS":
                self.set_items(self.pop_to_mark())
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                index = len(self.memo) if name == "MEMOIZE" else argument
                value = self.pop()
                self.memo[index] = value
                stack.append(value)
            case "GET" | "BINGET" | "LONG_BINGET":
                if argument not in self.memo:
                    raise self.fail("its pickle is damaged (a memo is missing)")
                stack.append(self.memo[argument])
            case "GLOBAL":
                module, _, attribute = argument.partition(" ")
                stack.append(Name(module, attribute))
            case "STACK_GLOBAL":
                attribute, module = self.pop(), self.pop()
                if not isinstance(attribute, str) or not isinstance(module, str):
                    raise self.fail("its pickle is damaged (a name is no text)")
                stack.append(Name(module, attribute))
            case "REDUCE":
                arguments, function = self.pop(), self.pop()
                stack.append(self.call(function, arguments))
            case "NEWOBJ":
                arguments, kind = self.pop(), self.pop()
                stack.append(self.new(kind, arguments))
            case "BINPERSID":
                stack.append(self.persistent(self.pop()))
            case "BUILD":
                state, target = self.pop(), self.pop()
                stack.append(self.build(target, state))
            case _:
                raise self.fail(f"its pickle uses the instruction {name}{self.about(argument)}")

    def about(self, argument: Any) -> str:
        """Name what an instruction such as INST or NEWOBJ was after."""
        names = [str(value) for value in self.stack if isinstance(value, Name)]
        if isinstance(argument, str) and argument.strip():
            return f" for {argument.replace(' ', '.')[:80]!r}"
        return f" for {names[-1]}" if names else ""

    def peek(self) -> Any:
        """Give the value on top of the stack."""
        value = self.pop()
        self.stack.append(value)
        return value

    def top(self, kind: type) -> Any:
        """Give the value on top of the stack, which must be of this kind."""
        value = self.peek()
        if not isinstance(value, kind):
            raise self.fail("its pickle is damaged (items are added to something else)")
        return value

    def set_items(self, items: list[Any]) -> None:
        """Put keys and values, in turn, into the dictionary on top of the stack."""
        target = self.top(dict)
        if len(items) % 2:
            raise self.fail("its pickle is damaged (a key has no value)")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self.key(key)] = value
