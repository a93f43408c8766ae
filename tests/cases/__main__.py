"""`python -m tests.cases runs|provider|badinput DIR [--only NNN] [-v]`."""

import argparse
import sys
from pathlib import Path

from tests.cases.badinput import run_bad_inputs
from tests.cases.case_file import case_files
from tests.cases.run_case import Verdict
from tests.cases.runner import run_files
from tests.services import running_services


def main() -> int:
    """Run a folder of cases; 1 if any failed."""
    wanted = _arguments()
    if not wanted.folder.is_dir():
        print(f"{wanted.folder} is not a folder of cases", file=sys.stderr)
        return 2
    passed, failed, unsupported = _KINDS[wanted.kind](wanted)
    print(f"{passed} passed, {failed} failed, {unsupported} unsupported")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cases")
    parser.add_argument("kind", choices=sorted(_KINDS))
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", metavar="NNN", help="only files whose name begins so")
    parser.add_argument("-v", "--verbose", action="store_true", help="say how every case went")
    return parser.parse_args()


def _runs(wanted: argparse.Namespace) -> tuple[int, int, int]:
    def show(verdict: Verdict) -> None:
        _show(verdict, is_verbose=wanted.verbose)

    with running_services() as services:
        verdicts = run_files(services, case_files(wanted.folder, wanted.only), show)
    return _count([verdict.outcome for verdict in verdicts])


def _provider(wanted: argparse.Namespace) -> tuple[int, int, int]:
    from tests.providers.case_runner import run_provider_cases

    return run_provider_cases(wanted.folder, wanted.only, verbose=wanted.verbose)


def _badinput(wanted: argparse.Namespace) -> tuple[int, int, int]:
    with running_services() as services:
        verdicts = run_bad_inputs(services, case_files(wanted.folder, wanted.only))
    for verdict in verdicts:
        _show(verdict, is_verbose=wanted.verbose)
    return _count([verdict.outcome for verdict in verdicts])


def _show(verdict: Verdict, *, is_verbose: bool) -> None:
    name = verdict.case.title
    if verdict.outcome == "failed":
        print(f"FAILED {name}: {'; '.join(verdict.problems)}")
        if is_verbose:
            print(verdict.log)
    elif is_verbose:
        why = f": {verdict.problems[0]}" if verdict.problems else f" in {verdict.seconds:.1f} s"
        print(f"{verdict.outcome} {name}{why}")
    sys.stdout.flush()


def _count(outcomes: list[str]) -> tuple[int, int, int]:
    return outcomes.count("passed"), outcomes.count("failed"), outcomes.count("unsupported")


_KINDS = {"runs": _runs, "provider": _provider, "badinput": _badinput}


if __name__ == "__main__":
    sys.exit(main())
