"""What regard evaluate says of two runs that chat: who wins by a preference, and what it cost."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.files.conversations import Dialogues
    from regard.runs.run import Run
    from regard.tasks.chat.versus import ChatSide

CHATS = ("chat", "preference")


def print_versus(run: "Run", other: "Run", files: list[Path], root: str | None, as_json: bool) -> None:
    """`files`: prompts with a chosen and a rejected answer, then conversations; by default the test data of the run
    that learnt the preference, and those of the run that learnt to answer."""
    from rich.console import Console
    from rich.table import Table

    from regard.tasks.chat.preference import Preference
    from regard.tasks.chat.task import Chat, test_dialogues
    from regard.tasks.chat.versus import wins

    runs = (run, other)
    for each in runs:
        each.expect(*CHATS)
    found = []
    for kind, task, file in zip(CHATS[::-1], (Preference, Chat), [*map(str, files), "", ""], strict=False):
        recipe = next((each.recipe for each in runs if each.recipe.kind == kind), None)
        if recipe is None and not file:
            raise ConfigError(f"neither run is one of {kind}; give two files: pairs of answers, then conversations")
        data = run.recipe.data if recipe is None else recipe.data
        data = data if root is None else replace(data, root=root)
        found.append(test_dialogues(data, task.answers, (file,) if file else ()))
    (what_pairs, pairs), (what_talk, talk) = found
    sides = [measured(each, pairs, talk) for each in runs]
    won, tied, lost = wins(sides[0].answers, sides[1].answers, [chosen for chosen, _ in pairs.answers])
    ratio = sides[0].perplexity / sides[1].perplexity
    if as_json:
        rows = [
            {
                "run": str(each.folder), "chosen_percent": s.chosen, "rejected_percent": s.rejected,
                "characters": s.n_characters, "perplexity": s.perplexity,
            }
            for each, s in zip(runs, sides, strict=True)
        ]  # fmt: skip
        versus = {"wins_percent": won, "ties_percent": tied, "losses_percent": lost, "perplexity_ratio": ratio}
        print(json.dumps({"pairs": what_pairs, "conversations": what_talk, "runs": rows, **versus}, indent=2))
        return
    table = Table("what", *(each.folder.name for each in runs), title=f"{what_pairs} ({len(pairs):,} prompts)")
    table.add_row("answers as the chosen one", *(f"{s.chosen:.1f} %" for s in sides))
    table.add_row("answers as the rejected one", *(f"{s.rejected:.1f} %" for s in sides))
    table.add_row("characters of an answer", *(f"{s.n_characters:.1f}" for s in sides))
    table.add_row("wins: the chosen one, the other's not", f"{won:.1f} %", f"{lost:.1f} %")
    table.add_row("neither wins", f"{tied:.1f} %", "")
    table.add_row(f"perplexity of {what_talk}", *(f"{s.perplexity:.4f}" for s in sides))
    Console().print(table)
    print(f"perplexity ratio: {ratio:.4f}")


def measured(run: "Run", pairs: "Dialogues", talk: "Dialogues") -> "ChatSide":
    from regard.tasks.chat.use import usual_length
    from regard.tasks.chat.versus import side

    recipe = run.recipe
    length = usual_length(run.model, recipe.task.sample_length)
    return side(run.generator, run.tokenizer, pairs, talk, length, recipe.decoding, recipe.data.batch_tokens)
