"""What test_trainer_losses.py runs in one process and in two: three updates over the same eight pairs each."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

from visir.threads import launched
from visir.training.trainer_losses import ObjectiveLoss

PAIRS = [
    (f"a {colour} {thing} in the {place}", f"there is a {thing} that is {colour}")
    for place in ("garden", "street", "sea")
    for colour in ("red", "blue", "green", "white")
    for thing in ("ball", "boat")
]


def main(clip: str, folder: Path, case: str) -> None:
    rank, count = launched()
    model = SentenceTransformer(clip, device="cpu")
    targets = np.random.default_rng(0).normal(size=(len(PAIRS), 5)).tolist()
    anchors, positives = zip(*PAIRS, strict=True)
    data = Dataset.from_dict({"anchor": anchors, "positive": positives, "label": targets})
    objective = {"name": "infonce", "learn_temperature": True, "local_loss": case == "local loss"}
    loss = ObjectiveLoss(model, objective, {"ltd": {"hidden": 8, "bound": 0.2}}, target_width=5)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "out"),
        num_train_epochs=1,
        per_device_train_batch_size=8 // count,
        learning_rate=1e-4,
        optim="sgd",
        max_grad_norm=0.0,
        lr_scheduler_type="constant",
        save_strategy="no",
        use_cpu=True,
        report_to=[],
        batch_sampler=lambda dataset, batch_size, drop_last, **others: [
            list(range(start, start + batch_size)) for start in range(0, len(dataset), batch_size)
        ],
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=loss, callbacks=[loss.callback()]
    )
    trainer.train()
    state = {f"objective.{name}": tensor for name, tensor in loss.objective.state_dict().items()}
    state |= {name: tensor for name, tensor in model.state_dict().items() if "text_" in name}
    torch.save({name: tensor.clone() for name, tensor in state.items()}, folder / f"{case}-{count}-{rank}.pt")


if __name__ == "__main__":
    for case in ("plain", "local loss"):
        main(sys.argv[1], Path(sys.argv[2]), case)
