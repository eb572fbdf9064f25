"""Traced integers: they store the dim of the value that they come from, and the operations applied since.

An expression is an int, ("size", value, dim), or (operation, expression, expression).
"""

import contextlib


class Shape(tuple):
    """The result of `.shape` during a trace, because torch.Size cannot be subclassed."""

    def numel(self):
        count = 1
        for size in self:
            count = count * size
        return count

    def __getitem__(self, index):
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else found

    def __add__(self, other):
        return Shape(tuple(self) + tuple(other))

    def __radd__(self, other):
        return Shape(tuple(other) + tuple(self))


class Size(int):
    """A traced size. Comparisons, and conversions that lose the expression, add their result to the dict `guards`."""

    def __new__(cls, value, expression, guards):
        made = int.__new__(cls, value)
        made.expression, made.guards = expression, guards
        return made

    def __bool__(self):
        return _compare("ne", self, 0, int(self.real) != 0)

    def __divmod__(self, other):
        return self // other, self % other

    def __neg__(self):
        return Size(-self.real, ("neg", self.expression), self.guards)

    def __hash__(self):
        return int.__hash__(self)

    def __reduce__(self):  # copies and pickles are plain ints
        return int, (self.real,)

    def _self(self, *_):
        return self

    __ceil__ = __floor__ = __trunc__ = __round__ = __pos__ = _self


class HostNumber:
    """Marks numbers that were read from a tensor's data."""


class HostInt(HostNumber, int):
    def __reduce__(self):
        return int, (int.__index__(self),)


class HostFloat(HostNumber, float):
    pass


def pin(size):
    """Returns the plain number, and adds a guard that the size equals it."""
    plain = size.real
    size.guards.setdefault(("eq", size.expression, plain), True)
    return plain


def _compare(name, a, b, result):
    size = a if isinstance(a, Size) else b
    left, right = expression_of(a), expression_of(b)
    if left != right:
        size.guards.setdefault((name, left, right), result)
    return result


def expression_of(number):
    return number.expression if isinstance(number, Size) else int(number)


def _arithmetic(name, plain):
    def forward(self, other):
        if isinstance(other, HostNumber):
            return type(other)(plain(pin(self), other))
        if not isinstance(other, int):
            return NotImplemented if not isinstance(other, float) else plain(pin(self), other)
        return Size(plain(self.real, other.real), (name, self.expression, expression_of(other)), self.guards)

    def backward(self, other):
        if not isinstance(other, int):
            return NotImplemented if not isinstance(other, float) else plain(other, pin(self))
        return Size(plain(other.real, self.real), (name, expression_of(other), self.expression), self.guards)

    return forward, backward


def _lossy(plain):
    def forward(self, *others):
        return plain(pin(self), *(pin(o) if isinstance(o, Size) else o for o in others))

    def backward(self, other):
        return plain(other, pin(self))

    return forward, backward


def _comparison(name, plain):
    def compare(self, other):
        if not isinstance(other, int):
            return plain(pin(self), other) if isinstance(other, float) else NotImplemented
        return _compare(name, self, other, plain(self.real, other.real))

    return compare


def _install():
    import operator as o

    for name, plain in (("add", o.add), ("sub", o.sub), ("mul", o.mul), ("floordiv", o.floordiv), ("mod", o.mod)):
        forward, backward = _arithmetic(name, plain)
        setattr(Size, f"__{name}__", forward)
        setattr(Size, f"__r{name}__", backward)
    lossy = {n: getattr(o, n) for n in ("truediv", "lshift", "rshift", "and_", "or_", "xor")} | {"pow": pow}
    for name, plain in lossy.items():
        forward, backward = _lossy(plain)
        setattr(Size, f"__{name.rstrip('_')}__", forward)
        setattr(Size, f"__r{name.rstrip('_')}__", backward)
    for name, plain in (("int", int), ("float", float), ("abs", abs), ("invert", o.invert)):
        setattr(Size, f"__{name}__", _lossy(plain)[0])
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Size, f"__{name}__", _comparison(name, getattr(o, name)))


_install()


@contextlib.contextmanager
def loops_counted():
    """Makes `range` over a size add a guard: the loop is unrolled, so its number of iterations is fixed."""
    import builtins

    plain = builtins.range

    class Counting(type):
        def __instancecheck__(cls, value):
            return isinstance(value, plain)

        def __subclasscheck__(cls, other):
            return issubclass(other, plain)

        def __call__(cls, *bounds):
            return plain(*(pin(b) if isinstance(b, Size) else b for b in bounds))

    builtins.range = Counting("range", (), {})
    try:
        yield
    finally:
        builtins.range = plain
