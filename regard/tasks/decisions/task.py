"""Decisions (Chen et al. 2021): episodes of a game in; out, what to do next so that a given return is reached."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import expect
from regard.data.config import DataConfig
from regard.data.episodes.episodes import EpisodeSet
from regard.data.episodes.files import episode_parts, episodes_in
from regard.data.episodes.report import episode_rows
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RegardError
from regard.evaluation.measured import Measured
from regard.games.table import make_game
from regard.models.decisions import Decider
from regard.processes import spread, spread_lines
from regard.tasks.decisions.batches import DecisionBatch, EpisodePart, Symbols, as_steps, best_of
from regard.tasks.decisions.looking import as_episodes, look_at_steps, one_episode
from regard.tasks.decisions.measures import report
from regard.tasks.decisions.settings import DecisionsConfig, settled
from regard.tasks.decisions.sizing import draft
from regard.tasks.decisions.use import AT_A_TIME, PlayTable, Seat, name_of, name_of_state
from regard.tasks.decisions.verbs import Play, Played
from regard.tasks.setup import TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus

TEST_SEED = 1_000_000  # of the first episode that `evaluate` plays: no validation or usual play has seen these


class Decisions(Task[EpisodeSet, EpisodePart, Decider, DecisionBatch]):
    """-Σ_t log P(action_t | return_t, state_t, and the steps before); of continuous actions, half the squared error,
    and of what a critic expects, too."""

    settings = DecisionsConfig
    reads_text = False
    purpose = "was trained to decide what to do next in a game"
    commands = ("regard play RUN", "regard evaluate RUN", "regard look RUN")
    recognize = staticmethod(episodes_in)
    draft = staticmethod(draft)
    config: DecisionsConfig

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[EpisodeSet]:
        return episode_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """The model reads no text: whatever a tokenizer learns from is not used."""
        return ["a state, an action and a return"]

    def settle(self, train: EpisodeSet) -> DecisionsConfig:
        return settled(self.config, train)

    @cached_property
    def symbols(self) -> Symbols:
        return [{symbol: 1 + i for i, symbol in enumerate(column)} for column in self.config.symbols]

    def part(self, raw: EpisodeSet, to_learn: bool) -> EpisodePart:
        if to_learn and self.config.top < 1:
            raw = best_of(raw, self.config.top)
        return EpisodePart(raw, self.config.form, self.symbols, self.config.context)

    # Learning.

    def collate(self, part: EpisodePart, chosen: np.ndarray, epoch: int | None = None) -> DecisionBatch:
        return part.batch(chosen, self.setup.seed, epoch, self.config.even)

    def nats(self, model: Decider, batch: DecisionBatch, smoothing: float) -> Tensor:
        states = model.states(batch.inputs, batch.layout)
        outputs = model.to_action(states).float()
        errors = (model.expect(states).float() - batch.returns).square().sum() / 2 if model.form.has_critic else 0.0
        if model.form.n_actions:
            return errors + F.cross_entropy(outputs, batch.actions, reduction="sum")
        mean, deviation = (outputs.new_tensor(row) for row in (model.form.action_mean, model.form.action_deviation))
        return errors + (outputs - (batch.actions - mean) / deviation).square().sum() / 2

    # Validation and measuring.

    def figures(self, model: Decider, part: EpisodePart) -> dict[str, float]:
        """The figures of `predicted`, and the mean return of some games."""
        values = self.predicted(model, part)
        if self.config.validation_episodes and self.config.game:
            played = self.play_on(model, self.setup.decoding, Play(episodes=self.config.validation_episodes))
            values["return"] = float(np.mean([episode.reached for episode in played]))
        return values

    @torch.no_grad()
    def predicted(self, model: Decider, part: EpisodePart) -> dict[str, float]:
        """Nats an action; and the mean squared error of the return that a critic expects."""
        groups = self.packing(part, self.batch_tokens, "random", 0).epoch(0)
        values = {"loss": self.mean_loss(model, part, groups)}
        if model.form.has_critic:

            def errors(chosen: np.ndarray) -> Tensor:
                batch = self.collate(part, chosen).to(model.device)
                return model.expect(model.states(batch.inputs, batch.layout)) - batch.returns

            all_errors = torch.cat(spread(list(groups), errors)) * model.form.return_scale
            values["critic_error"] = float(all_errors.square().mean())
        return values

    def measure(self, use: Use[Decider], files: Sequence[str] = ()) -> Measured:
        """What is reached for each return that is asked for; and how test data are predicted, if there are any."""
        of, predicted, data = f"games of {self.config.game}", {}, self.setup.data
        if files or not self.config.game or data.test or data.test_share or data.valid or data.valid_share:
            name, raw = self.test(files)
            predicted = self.predicted(use.model, self.part(raw, to_learn=False))
            of = f"{of}; {name}" if self.config.game else name
        played: dict[float | None, list[Played]] = {}
        if self.config.game:
            asked = dict.fromkeys([self.asked_for(None), *(self.config.targets if self.config.conditioned else ())])
            asks = {goal: Play(self.config.episodes, goal, TEST_SEED) for goal in asked}
            played = {goal: self.play_on(use.model, use.decoding, ask) for goal, ask in asks.items()}
        return report(of, played, expect(self.config.asked, float), predicted, self.signature_of(use.decoding))

    def signature_of(self, decoding: DecodingConfig) -> str:
        way = (
            f"sampled at {decoding.temperature:g}, seed {decoding.seed}" if decoding.sample else "most probable action"
        )
        c = self.config
        return f"game:{c.game or 'none'}|episodes:{c.episodes} from seed {TEST_SEED}|context:{c.context}|actions:{way}"

    # For people.

    def inspect(self) -> list[Row]:
        return [row for name, part in self.parts().items() for row in episode_rows(name, part.raw, part.notes)]

    def settled_rows(self) -> list[tuple[str, str]]:
        c = self.config
        n_actions = f"one of {c.n_actions}" if c.n_actions else f"{len(c.action_mean)} numbers"
        state = f"{len(c.symbols)} symbols" if c.symbols else f"{len(c.state_mean)} numbers"
        asked = f"return {c.asked:g}" if c.conditioned else "nothing: what was done is imitated"
        return [
            ("a state", state),
            ("an action", n_actions),
            ("a decision sees", f"{c.context} steps"),
            ("asked for", asked),
        ]

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"play": self.play}

    def play(self, use: Use[Decider], ask: Play) -> list[Played]:
        return self.play_on(use.model, ask.decoding or use.decoding, ask)

    def look(self, use: Use[Decider], source: str, target: str | None, focus: Focus) -> Capture:
        """At an episode of a file (walks.jsonl, or walks.jsonl:12 for its line 12), or at one that the run plays: with
        the seed that is given, or 0."""
        if target is not None:
            raise RegardError("this run reads episodes: there is no target")
        focus.check(use.model)
        if source and not source.isdecimal():
            episode, title = one_episode(source), source
            steps = EpisodePart(episode, self.config.form, self.symbols, self.config.context).steps[0]
        else:
            [played] = self.play_on(use.model, use.decoding, Play(seed=int(source or 0)))
            title = f"seed {played.seed}, reached {played.reached:g}"
            episode = as_episodes(played, title)
            steps = as_steps(episode.all[0], self.symbols)
            if played.asked is not None:
                steps = steps._replace(to_go=steps.to_go + played.asked - played.reached)
                title += f" of {played.asked:g}"
        first = max(0, len(steps.times) - self.config.context)
        names = make_game(self.config.game).action_names if self.config.game else ()
        states = [name_of_state(state) for state in episode.all[0].states[first:]]
        actions = [name_of(action, episode.is_discrete, names) for action in episode.all[0].actions[first:]]
        return look_at_steps(use.model, steps.part(first, len(steps.times)), states, actions, title, focus)

    def asked_for(self, asked: float | None) -> float | None:
        """The return to ask for: the given one, or the recipe's; None of a run that imitates."""
        if asked is not None and not math.isfinite(asked):
            raise ConfigError(f"the return to reach: expected a finite number, got {asked}")
        if not self.config.conditioned:
            if asked is not None:
                raise ConfigError(
                    "this run imitates what it was shown (task.conditioned = false): no return can be asked for"
                )
            return None
        return self.config.asked if asked is None else asked

    def play_on(self, model: Decider, decoding: DecodingConfig, ask: Play) -> list[Played]:
        asked = self.asked_for(ask.asked)
        if ask.make is None and not self.config.game:
            raise ConfigError("the recipe names no game to play: set task.game, or in Python give make=")
        c, names = self.config, () if ask.make else make_game(self.config.game).action_names
        table = PlayTable(model, self.symbols, c.context, c.action_lowest, c.action_highest, decoding, names)

        def play(numbers: Sequence[int]) -> list[dict[str, object]]:
            played: list[Played] = []
            for first in range(0, len(numbers), AT_A_TIME):
                some = numbers[first : first + AT_A_TIME]
                played += table.play([self.seat(ask, ask.seed + number, asked) for number in some])
            return [vars(episode) for episode in played]

        return [Played(**episode) for episode in spread_lines(range(ask.episodes), play)]  # type: ignore[arg-type]

    def seat(self, ask: Play, seed: int, asked: float | None) -> Seat:
        if ask.make is not None:
            return Seat(ask.make(), seed, asked, None)
        game = make_game(self.config.game)
        return Seat(game, seed, asked, game.board if ask.boards else None)
