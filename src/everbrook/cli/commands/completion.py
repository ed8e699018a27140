"""``everbrook completion`` prints the script with which a shell completes commands, options and files."""

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
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    from everbrook.cli.main import everbrook

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    # `source()` would run the shell to get its version, and might find another shell than the user's.
    completer = kind(everbrook, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    click.echo(kind.source_template % completer.source_vars())
