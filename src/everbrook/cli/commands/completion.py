"""``everbrook completion``: what lets a shell complete commands, options and files."""

import click

from everbrook.cli.terminal.output import PROGRAM

SHELLS = ("bash", "zsh", "fish")


INSTALLED = """
\b
bash  everbrook completion bash >> ~/.bashrc
zsh   everbrook completion zsh >> ~/.zshrc
fish  everbrook completion fish > ~/.config/fish/completions/everbrook.fish
"""


@click.command(epilog=INSTALLED)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what lets SHELL complete commands."""
    from click.shell_completion import get_completion_class

    from everbrook.cli.main import everbrook

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    # Not `source()`: it runs the shell to ask for its version, and it may not be the one that is meant.
    completer = kind(everbrook, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    click.echo(kind.source_template % completer.source_vars())
