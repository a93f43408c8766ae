"""Help that teaches: what stands above and below the lists of options.

A line with a lone backspace character tells the help formatter to leave the paragraph as it is.
"""

from typing import Final

from umbel.names import REASONS, RUN_STATUSES

STATUS: Final = f"Only this status; may be repeated. One of {', '.join(RUN_STATUSES)}."
REASON: Final = f"Only this reason; may be repeated. One of {', '.join(REASONS)}."
GET_SHORT: Final = "One run: facts, story, answer."
STEPS_SHORT: Final = "Every step of a run: model attempts and calls."
CONTEXT_SHORT: Final = "What a step sent to its model, byte for byte."
TAIL_SHORT: Final = "Follow a run, or all of them, live."
CREATE_SHORT: Final = "Enqueue a request on the running system."
MIGRATE_SHORT: Final = "Bring the tables to this version; safe to repeat."
UMBEL: Final = """Durable LLM-agent runs on Celery, PostgreSQL and Redis.

\b
Try it, with nothing configured:
  umbel run 'What does Umbel mean by "a worker is dead"?' --workspace docs

\b
With a model of your own:
  export OPENAI_API_KEY=...  UMBEL_MODEL=gpt-5-mini
  umbel run "Compare README.md with docs and list what is outdated"

\b
On servers of your own:
  export UMBEL_DATABASE_URL=postgresql://user:password@host/umbel
  export UMBEL_REDIS_URL=redis://host:6379/0
  umbel db migrate
  umbel runs create "Say hello" --tail
"""
EXIT_CODES: Final = """\b
Exit codes: 0 done (for `run`: completed), 1 not completed, 2 wrong usage or
settings, 3 a part does not answer, 130 Ctrl-C, 141 nobody reads the output any
more. Settings: docs/configuration.md.
"""
RUN: Final = """\b
Examples:
  umbel run 'What does Umbel mean by "a worker is dead"?' --workspace docs
  umbel run "Fix the typos in README.md" --agent editor --keep
  git diff | umbel run - --json | jq -r 'select(.type=="run.settled").answer'
"""
UP: Final = """\b
Examples:
  umbel up
  umbel up --data /srv/umbel
"""
DOCTOR: Final = """\b
Examples:
  umbel doctor
  umbel doctor --data /srv/umbel --verbose
  umbel doctor --invariants
  umbel doctor --json | jq -r 'select(.state != "ok") | .remedy'
"""
USAGE_SHORT: Final = "What model calls used and cost: by day, agent, model, purpose, owner."
USAGE: Final = """\b
Examples:
  umbel usage
  umbel usage --by owner --by model --since 2026-03-01 --until 2026-04-01
  umbel usage --by purpose --age 7d --agent editor
  umbel usage --json | jq -r 'select(.type=="usage") | "\\(.day) \\(.cost_usd)"'
"""
FLOWER: Final = """\b
Examples:
  UMBEL_FLOWER_AUTH=ann:secret umbel flower
  UMBEL_FLOWER_AUTH=ann:secret UMBEL_FLOWER_ADDRESS=127.0.0.1:8555 umbel flower
"""
RUNS_LIST: Final = """\b
Examples:
  umbel runs list --status running --status waiting
  umbel runs list --status paused --reason unknown_outcome --age 3d
  umbel runs list --text "quarterly report" --owner ann
  umbel runs list --json | jq -r .run_id
"""
RUNS_GET: Final = """\b
Examples:
  umbel runs get run_01k9
  umbel runs get run_01k9 --json | jq -r '.story[] | "\\(.at) \\(.text)"'
  umbel runs get run_01k9 --data ~/.local/state/umbel/20260101-120000
"""
RUNS_STEPS: Final = """\b
Examples:
  umbel runs steps run_01k9
  umbel runs steps run_01k9 --json | jq '.attempts[].input_tokens'
"""
RUNS_CONTEXT: Final = """\b
Examples:
  umbel runs context run_01k9 3
  umbel runs context run_01k9 3 | jq -r '.messages[] | "\\(.role): \\(.content)"'
  umbel runs context run_01k9 3 --attempt 2 --json | jq .left_out
"""
RUNS_TAIL: Final = """\b
Examples:
  umbel runs tail run_01k9
  umbel runs tail run_01k9 --from 17 --json
  umbel runs tail
"""
CREATE: Final = """\b
Examples:
  umbel runs create "Compare plan-a.md with plan-b.md" --workspace /srv/plans --tail
  git log -20 | umbel runs create - --agent writer
  umbel runs create "Send the report" --run-id run_report-2026-03 --json
"""
DB_MIGRATE: Final = """\b
Example:
  UMBEL_DATABASE_URL=postgresql://umbel@localhost/umbel umbel db migrate
"""
DB_CHECK: Final = """\b
Examples:
  umbel db check
  umbel db check || umbel db migrate
"""
