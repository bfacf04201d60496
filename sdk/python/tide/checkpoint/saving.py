"""What save() returns: a checkpoint's id, which can be asked whether it is committed yet."""

from __future__ import annotations

from typing import Callable, Optional

from .._errors import CheckpointError


class Saving(str):
    """The id of a checkpoint: s<step>-<number>-<nonce>. Used by the training thread.

    save(wait=False) returns it once the state is copied and may change.
    """

    _look: "Callable[[Saving, float], None]"
    _is_committed: bool
    _error: Optional[CheckpointError]

    @classmethod
    def begin(cls, name: str, look: "Callable[[Saving, float], None]") -> "Saving":
        """look(this, seconds): waits so long for settle() at most."""
        self = cls(name)
        self._look, self._is_committed, self._error = look, False, None
        return self

    def settle(self, error: Optional[CheckpointError]) -> None:
        """Notes how it ended. error: None = it is committed."""
        self._is_committed, self._error = error is None, error

    @property
    def is_settled(self) -> bool:
        return self._is_committed or self._error is not None

    def committed(self, timeout_s: float = 0.0) -> bool:
        """True once it is committed, which is waited for so long. Errors: CheckpointError where it failed."""
        if not self.is_settled:
            self._look(self, timeout_s)
        if self._error is not None:
            raise self._error
        return self._is_committed
