"""Shared training machinery: tokenised corpora, length-bucketed batches, the loop with EMA and checkpoints, prediction."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from corpus import LABELS, Sentence, compute_f1

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tokenized import TokenizedSentence

EMA_DECAY = 0.995


def make_hard_targets(sentences: Sequence[Sentence]) -> list[np.ndarray]:
    eye = np.eye(len(LABELS), dtype=np.float32)
    return [eye[list(s.labels)] for s in sentences]


def make_batches(encoded: Sequence[TokenizedSentence], size: int, rng: random.Random | None) -> list[list[int]]:
    """Batches of similar length. Shuffled, lengths are jittered so that batch mates differ between epochs."""
    order = list(range(len(encoded)))
    jitter = (lambda: rng.random() * 3) if rng else (lambda: 0.0)
    order.sort(key=lambda i: len(encoded[i].ids) + jitter())
    cut = [order[i : i + size] for i in range(0, len(order), size)]
    if rng:
        rng.shuffle(cut)
    return cut


def collate(encoded: Sequence[TokenizedSentence], chosen: Sequence[int]) -> dict[str, torch.Tensor]:
    width = max(len(encoded[i].ids) for i in chosen)
    ids = np.zeros((len(chosen), width), np.int64)
    types = np.zeros_like(ids)
    mask = np.zeros_like(ids)
    for row, index in enumerate(chosen):
        length = len(encoded[index].ids)
        ids[row, :length] = encoded[index].ids
        types[row, :length] = encoded[index].types
        mask[row, :length] = 1
    return {
        "input_ids": torch.from_numpy(ids),
        "token_type_ids": torch.from_numpy(types),
        "attention_mask": torch.from_numpy(mask),
    }


@torch.no_grad()
def predict(
    model: torch.nn.Module, sentences: Sequence[Sentence], encoded: Sequence[TokenizedSentence], *, batch: int = 32
) -> list[np.ndarray]:
    """Word probabilities: the mean over each word's subwords. A word without a subword gets O."""
    model.eval()
    answers: list[np.ndarray] = [np.empty(0)] * len(sentences)
    started, done = time.monotonic(), 0
    for chosen in make_batches(encoded, batch, None):
        probs = torch.softmax(model(**collate(encoded, chosen)).logits, -1).numpy()
        for row, index in enumerate(chosen):
            words = np.array(encoded[index].words)
            sums = np.zeros((len(sentences[index].words), len(LABELS)))
            counts = np.zeros(len(sums))
            np.add.at(sums, words[words >= 0], probs[row, : len(words)][words >= 0])
            np.add.at(counts, words[words >= 0], 1)
            sums[counts == 0, 0] = 1
            answers[index] = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
        done += len(chosen)
        if done // batch % 200 == 0:
            print(f"  predicted {done}/{len(sentences)} ({done / (time.monotonic() - started):.0f}/s)", flush=True)
    return answers


def evaluate_f1(sentences: Sequence[Sentence], probabilities: Sequence[np.ndarray]) -> float:
    return compute_f1([s.labels for s in sentences], [p.argmax(1).tolist() for p in probabilities])


@dataclass(frozen=True)
class TrainingPlan:
    epochs: int
    batch: int
    rate: float
    head_rate: float
    seed: int
    bfloat16: bool = False  # forward and backward in half the time on CPUs with AVX-512 BF16; others lose by it


class Trainer:
    """Runs a plan; a checkpoint every few minutes lets an interrupted run go on where it was."""

    def __init__(self, model: torch.nn.Module, plan: TrainingPlan, folder: Path, total_steps: int) -> None:
        self.model, self.plan, self.folder, self.total = model, plan, folder, total_steps
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        fresh = [p for name, p in trained.items() if "classifier" in name or "token_type" in name]
        old = [p for name, p in trained.items() if not ("classifier" in name or "token_type" in name)]
        self.params = old + fresh
        self.optimizer = torch.optim.AdamW(
            [{"params": old, "lr": plan.rate}, {"params": fresh, "lr": plan.head_rate}], weight_decay=0.01, fused=True
        )
        warm = max(1, total_steps // 15)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: min((step + 1) / warm, max(0, total_steps - step) / max(1, total_steps - warm)),
        )
        self.average = [p.detach().clone() for p in self.params]
        self.step = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.state_file = folder / "state.pt"
        if self.state_file.exists():
            self._restore()

    def _restore(self) -> None:
        state = torch.load(self.state_file, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.average = state["average"]
        self.step = state["step"]
        print(f"going on at step {self.step}", flush=True)

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "average": self.average,
            "step": self.step,
        }
        scratch = self.state_file.with_suffix(".tmp")
        torch.save(state, scratch)
        scratch.rename(self.state_file)

    def swap_average(self) -> None:
        """Exchanges the weights for their moving average; calling it again puts them back."""
        for index, parameter in enumerate(self.params):
            kept = parameter.detach().clone()
            parameter.data.copy_(self.average[index])
            self.average[index] = kept

    def run(self, encoded: Sequence[TokenizedSentence], targets: Sequence[np.ndarray]) -> Iterator[int]:
        """Yields the number of finished epochs after each."""
        steps = -(-len(encoded) // self.plan.batch)
        started, first, saved, losses = time.monotonic(), self.step, time.monotonic(), []
        if self.step and self.step % steps == 0 and self.step // steps not in read_evaluated_epochs(self.folder):
            yield self.step // steps  # interrupted after the epoch was trained and before dev had judged it
        for epoch in range(self.step // steps, self.plan.epochs):
            torch.manual_seed(self.plan.seed * 1000 + epoch)
            cut = make_batches(encoded, self.plan.batch, random.Random(f"{self.plan.seed}/{epoch}"))
            self.model.train()
            for chosen in cut[self.step - epoch * steps :]:
                losses.append(self._train_step(encoded, targets, chosen))
                self.step += 1
                if self.step % 50 == 0:
                    rate = (time.monotonic() - started) / (self.step - first)
                    left = (self.total - self.step) * rate / 60
                    print(
                        f"step {self.step}/{self.total} loss {np.mean(losses[-50:]):.4f}, {left:.0f} min left",
                        flush=True,
                    )
                if time.monotonic() - saved > 240:
                    self.save()
                    saved = time.monotonic()
            self.save()
            yield epoch + 1

    def _train_step(
        self, encoded: Sequence[TokenizedSentence], targets: Sequence[np.ndarray], chosen: Sequence[int]
    ) -> float:
        inputs = collate(encoded, chosen)
        rows = np.concatenate([np.full(len(encoded[i].words), r) for r, i in enumerate(chosen)])
        columns = np.concatenate([np.arange(len(encoded[i].words)) for i in chosen])
        wanted, real = [], []
        for index in chosen:
            words = np.array(encoded[index].words)
            real.append(words >= 0)
            wanted.append(targets[index][np.maximum(words, 0)])
        keep = np.concatenate(real)
        goal = torch.from_numpy(np.concatenate(wanted)[keep].astype(np.float32))
        with torch.autocast("cpu", torch.bfloat16, enabled=self.plan.bfloat16):
            logits = self.model(**inputs).logits[rows[keep], columns[keep]]
        loss = torch.nn.functional.cross_entropy(logits.float(), goal)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimizer.step()
        self.schedule.step()
        with torch.no_grad():
            decay = min(EMA_DECAY, (1 + self.step) / (10 + self.step))
            torch._foreach_lerp_(self.average, [p.detach() for p in self.params], 1 - decay)
        return float(loss.detach())


def read_figures(folder: Path) -> list[dict[str, float]]:
    log = folder / "figures.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def read_evaluated_epochs(folder: Path) -> set[float]:
    return {line["epoch"] for line in read_figures(folder)}


def save_if_best(folder: Path, model: torch.nn.Module, figures: dict[str, float], *, by: str) -> None:
    """Writes the model where `by` beats what the folder holds, and every epoch's figures beside it."""
    if all(figures[by] > line[by] for line in read_figures(folder)):
        scratch = folder / "best.tmp"
        torch.save(model.state_dict(), scratch)
        scratch.rename(folder / "best.pt")
    with (folder / "figures.jsonl").open("a") as out:
        out.write(json.dumps(figures) + "\n")
