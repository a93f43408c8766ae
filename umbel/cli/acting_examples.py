"""Help for commands that act on runs; umbel/cli/examples.py says how it is written."""

from typing import Final

STEER_SHORT: Final = "Correct a run while it works."
STOP_SHORT: Final = "Let nothing of a run start any more."
RESUME_SHORT: Final = "Let a paused, failed or stopped run go on."
FOLLOW_UP_SHORT: Final = "Ask for more in a run's thread."
SHARE_SHORT: Final = "Name who may correct the runs of your thread."
DENY_SHORT: Final = "Forbid it, in runs that are at work too."
ASK_SHORT: Final = "Let every change of it wait for the owner of its run."
ALLOW_SHORT: Final = "Take back what was said about it."
STEER: Final = """\b
Examples:
  umbel runs steer run_01k9 "Use staging, not production."
  umbel runs steer run_01k9 "Look into the folder below, too." --mode append
  umbel runs steer run_01k9 - --key ticket-17 --wait < correction.txt
"""
STOP: Final = """\b
Examples:
  umbel runs stop run_01k9
  umbel runs stop run_01k9 --wait --json | jq -r '.draining[]'
"""
RESUME: Final = """\b
Examples:
  umbel runs resume run_01k9
  umbel runs resume run_01k9 --limit tool_call_limit=80 --wait
"""
FOLLOW_UP: Final = """\b
Examples:
  umbel runs follow-up run_01k9 "Now write it up as a table."
  umbel runs follow-up run_01k9 "Forget that; list the errors." --on-busy interrupt --wait
"""
RECEIPTS_LIST: Final = """\b
Examples:
  umbel receipts list --unknown
  umbel receipts list --run run_01k9 --json | jq -r '[.call_id, .outcome] | @tsv'
"""
RECEIPTS_VERIFY: Final = """\b
Examples:
  umbel receipts verify call_01k9 happened "Ticket 4711 exists; made at 09:14."
  umbel receipts verify call_01k9 not_happened "No mail in the outbox of that hour."
"""
SOURCES_CHANGED: Final = """\b
Examples:
  umbel sources changed file:/srv/plans/a.md
  umbel sources changed page:https://example.org/prices --revision 17 --json
"""
SOURCES_DELETED: Final = """\b
Examples:
  umbel sources deleted file:/srv/plans/a.md
  umbel sources deleted note:4711 --reason "Withdrawn by its author."
"""
APPROVALS_LIST: Final = """\b
Examples:
  umbel approvals list
  umbel approvals list --run run_01k9 --json | jq -r '[.call_id, .sha256] | @tsv'
"""
APPROVALS_SHOW: Final = """\b
Examples:
  umbel approvals show call_01k9
  umbel approvals show call_01k9 --json | jq -r .args_text
"""
APPROVALS_APPROVE: Final = """\b
Example:
  umbel approvals approve call_01k9 5f1c0a9be47d
"""
APPROVALS_DENY: Final = """\b
Example:
  umbel approvals deny call_01k9 5f1c0a9be47d "Use the test account instead."
"""
AUTHORITY_LIST: Final = """\b
Examples:
  umbel authority list
  umbel authority list --all --json | jq -r 'select(.permission == "deny") | .why'
"""
AUTHORITY_DENY: Final = """\b
Examples:
  umbel authority deny tenant "Incident 7: nothing changes until Monday."
  umbel authority deny tool:send_mail "Recalled; use send_letter."
  umbel authority deny target:prod/db "Changed by its owners only."
  umbel authority deny user:ann "Has left."
"""
AUTHORITY_ASK: Final = """\b
Examples:
  umbel authority ask tenant "Audit week."
  umbel authority ask user:bob "New here."
"""
AUTHORITY_ALLOW: Final = """\b
Examples:
  umbel authority allow tenant "Incident 7 is over."
  umbel authority allow tool:send_mail "Version 2 is in."
"""
THREADS_SHARE: Final = """\b
Examples:
  umbel threads share run_01k9 bob eve
  umbel threads share thr_01k9 bob --json
"""
THREADS_UNSHARE: Final = """\b
Example:
  umbel threads unshare run_01k9
"""
