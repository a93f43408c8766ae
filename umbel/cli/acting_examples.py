"""Help for commands that act on runs; umbel/cli/examples.py says how it is written."""

from typing import Final

STEER_SHORT: Final = "Correct a run while it works."
STOP_SHORT: Final = "Let nothing of a run start any more."
RESUME_SHORT: Final = "Let a paused, failed or stopped run go on."
FOLLOW_UP_SHORT: Final = "Ask for more in a run's thread."
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
