"""What is searched: small scenarios that together cover everything that may go wrong."""

from typing import Final

from loop.policy import Policy
from tests.state.system import Budget, Scenario, asks

CHANGE = asks("change", "x")
OTHER = asks("change", "y")
READ = asks("read")

KILLED: Final = Scenario(
    "a change and a read, a worker is killed, messages doubled, Redis emptied",
    ((CHANGE, READ),),
    Budget(kills=1, duplicates=1, flushes=1),
)
ZOMBIE: Final = Scenario(
    "a living worker is taken for dead",
    ((CHANGE, READ),),
    Budget(silences=1, kills=1, deadlines=1),
)
AGAIN: Final = Scenario(
    "the owner verifies an unknown change, and the model asks for it again",
    ((CHANGE,), (CHANGE,)),
    Budget(kills=1, resets=1, deadlines=1, verifications=1, resumes=1),
)
STEERED: Final = Scenario(
    "the owner corrects the run",
    ((CHANGE, READ),),
    Budget(redirects=1, appends=1, errors=1),
    Policy(max_losses=2, parallel=1),
)
STOPPED: Final = Scenario(
    "the owner stops the run and resumes it",
    ((CHANGE, READ),),
    Budget(stops=1, resumes=1, silences=1),
)
FAILING: Final = Scenario(
    "the endpoint fails, and decisions cannot be written",
    ((asks("mistaken"),), (READ,)),
    Budget(failures=2, errors=1, redirects=1, stops=1),
    Policy(max_losses=2, provider_retries=1, corrections=0),
)
UNANSWERED: Final = Scenario(
    "answers of the database are lost, and workers end",
    ((CHANGE, READ),),
    Budget(unanswered=2, drains=1, stops=1),
)
PAIR: Final = Scenario(
    "two changes at once, and one loses its worker",
    ((CHANGE, OTHER),),
    Budget(kills=1, deadlines=1),
)
LOSSES: Final = Scenario(
    "a step costs many workers",
    ((READ,),),
    Budget(kills=4, deadlines=1),
    Policy(max_losses=3),
)
TOOLS: Final = Scenario(
    "tools are missing, refused, or say nothing",
    ((CHANGE, OTHER),),
    Budget(missing=2, resets=1, refusals=1, redirects=1, resumes=1),
    Policy(parallel=1),
)
ASKED: Final = Scenario(
    "the owner is asked, answers in any order, too late, or says something else",
    ((asks("asked", "x"), asks("asked", "y")),),
    Budget(grants=2, denials=1, lapses=1, stops=1, redirects=1),
    Policy(max_losses=2, parallel=1),
)
GUESTS: Final = Scenario(
    "a collaborator corrects the run, and the owner says the same thing twice",
    ((CHANGE,), (OTHER,)),
    Budget(guests=1, keyed=2, grants=1, denials=1, errors=1),
    Policy(max_losses=2, parallel=1),
)
LIMITED: Final = Scenario(
    "the run may not ask for so much, and may once the owner allows it",
    ((CHANGE, READ), (OTHER,)),
    Budget(raises=1, resumes=1, redirects=1, early=2, kills=1),
    Policy(max_losses=2, tool_call_limit=2),
)
KEYED: Final = Scenario(
    "changes of this run and another one touch the same thing",
    ((asks("shared", "x"), READ, asks("shared", "y")),),
    Budget(kills=1, deadlines=1, verifications=1, resumes=1, others=1),
)
SCENARIOS: Final = (
    KILLED,
    ZOMBIE,
    AGAIN,
    STEERED,
    STOPPED,
    FAILING,
    UNANSWERED,
    PAIR,
    LOSSES,
    TOOLS,
    ASKED,
    GUESTS,
    LIMITED,
    KEYED,
)

LARGE: Final = (
    Scenario(
        "two kills, a living worker taken for dead, a doubled message, an emptied Redis",
        ((CHANGE, READ),),
        Budget(kills=2, silences=1, duplicates=1, flushes=1, deadlines=1),
        Policy(max_losses=4),
    ),
    Scenario(
        "verification, with a kill, a living worker taken for dead and a correction",
        ((CHANGE,), (CHANGE,)),
        Budget(
            kills=1,
            silences=1,
            resets=1,
            deadlines=1,
            verifications=1,
            resumes=1,
            redirects=1,
        ),
    ),
    Scenario(
        "two corrections of either kind, a stop, a resume, a kill, a failed commit",
        ((CHANGE, READ),),
        Budget(kills=1, redirects=2, appends=1, stops=1, resumes=1, errors=1),
        Policy(parallel=1),
    ),
    Scenario(
        "lost answers, ending workers, a kill, a stop and a correction",
        ((CHANGE, READ),),
        Budget(kills=1, unanswered=2, drains=1, stops=1, redirects=1, missing=2),
    ),
    Scenario(
        "the owner is asked, with a kill, a silent tool, a doubled message, a stop and a resume",
        ((asks("asked", "x"), READ, asks("asked", "y")),),
        Budget(grants=2, denials=1, lapses=1, kills=1, resets=1, duplicates=1, stops=1, resumes=1),
        Policy(max_losses=2, parallel=1),
    ),
)
