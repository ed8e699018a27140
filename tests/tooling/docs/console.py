"""`console` blocks: commands behind `$`, each with what it printed below it.

They run in the shell of their page, one after the other, with both outputs as a terminal mixes them. One that shows
nothing may print anything.
"""

from msgspec import Struct

PROMPT = "$ "
CONTINUED = "> "
MARK = "\x1e"


class Command(Struct, frozen=True):
    """A command, and what the page shows of its output."""

    script: str
    shown: str


def parse_console(code: str) -> list[Command]:
    """Read a block. It must begin with a prompt."""
    commands: list[Command] = []
    for line in code.splitlines(keepends=True):
        if line.startswith(PROMPT):
            commands.append(Command(line.removeprefix(PROMPT), ""))
        elif not commands:
            raise ValueError(f"a console block begins with '{PROMPT}command', got {line!r}")
        elif line.startswith(CONTINUED) and not commands[-1].shown:
            commands[-1] = Command(commands[-1].script + line.removeprefix(CONTINUED), "")
        else:
            commands[-1] = Command(commands[-1].script, commands[-1].shown + line)
    return commands


def script_of(commands: list[Command]) -> str:
    """A script that prints a mark behind the output of each command, and leaves its exit code for the next."""
    marked = (f"{command.script}{{ code=$?; printf '\\036'; (exit $code); }}\n" for command in commands)
    return "exec 3>&2 2>&1\n" + "".join(marked) + "exec 2>&3 3>&-\n"


def outputs_of(printed: str) -> list[str]:
    """Give what each command printed."""
    return printed.split(MARK)[:-1]
