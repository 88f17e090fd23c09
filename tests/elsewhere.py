"""An engine that stands for other processes: it works on copies of all that would be sent."""

from __future__ import annotations

import pickle

from pivec.parallel import Engine, Shared, using


class Elsewhere(Engine):
    """Pickles what goes and what comes, and works on the last part first.

    ``parts`` counts them, and ``sent`` the bytes that went for all of them together.
    """

    parts = sent = 0

    def _map(self, task, items):
        raise NotImplementedError

    def in_order(self, function, parts, *arguments):
        packed = pickle.dumps((function, list(parts), arguments))
        self.sent += len(packed)
        function, parts, arguments = pickle.loads(packed)
        self.parts += len(parts)
        values = [a.value if isinstance(a, Shared) else a for a in arguments]
        with using("serial"):
            results = [pickle.dumps(function(part, *values)) for part in reversed(parts)]
        while results:
            yield pickle.loads(results.pop())
