"""Exceptions of Umbel. Outcomes the product expects are values, never exceptions.

UmbelError
├─ Rejected            the caller's fault, never retried
│  ├─ InvalidInput     a value breaks a rule; names the field and the rule
│  │  └─ IdReused      an id of the caller's choice stands for another request already
│  ├─ NotFound         no such thing, or not yours
│  ├─ NotPermitted     you know of it, and only somebody else may do this to it
│  ├─ Conflict         it does not stand so that this could be done; names what to do first
│  └─ Misconfigured    settings, agent or model configuration that cannot work
├─ Unavailable         try again later (the only kind that is retried)
│  └─ Contended        somebody else keeps a row locked
├─ LeaseLost           another worker owns the run: stop quietly, write nothing
└─ InvariantBroken     a bug or a corrupt record: crash loudly, never "handle" it
   └─ ContractMismatch what a run was accepted with is not what its hash says
"""


class UmbelError(Exception):
    """Base of everything Umbel raises on purpose."""


class Rejected(UmbelError):
    """The caller must change something; repeating the same request cannot help."""


class InvalidInput(Rejected):
    """A value breaks a rule."""


class IdReused(InvalidInput):
    """An id of the caller's choice stands for another request already: the message says which."""


class NotFound(Rejected):
    """There is no such thing, or it belongs to somebody else: the answer is the same."""


class NotPermitted(Rejected):
    """The asker may know of the thing, and only somebody else may do this to it."""


class Conflict(Rejected):
    """The thing does not stand so that this could be done; the message says what to do first."""


class Misconfigured(Rejected):
    """Configuration that cannot work; the message says what to change."""


class Unavailable(UmbelError):
    """A part (database, broker, model endpoint) does not answer now; trying later may help."""


class Contended(Unavailable):
    """Somebody else keeps a row locked for longer than this caller may wait."""


class LeaseLost(UmbelError):
    """Another worker owns the run: stop quietly, write nothing."""


class InvariantBroken(UmbelError):
    """A bug or a corrupt record."""


class ContractMismatch(InvariantBroken):
    """What a run was accepted with is not what its hash says: nobody guesses, its owner is told."""
