"""Tiny random Vision Transformers, as transformers and timm save them, and runs of our own."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers

import regard
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.interop.importing import import_source, open_source, tokenizer_of
from regard.learning.config import TrainingConfig
from regard.models.vit import ViTConfig
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.runs.weights import save_weights, weights_of
from regard.tasks.images.task import ImageLabelsConfig
from regard.text.tokenizer import Tokenizer, TokenizerConfig

SIZES = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 7}
NAMES = ("zebra", "ant", "cow")  # not in the order of words
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 32, "width": 32},
    "resample": 3,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": DEVIATION,
}
NEWER = {
    "encoder.layer.": "layers.",
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}


def stir(model: torch.nn.Module) -> None:
    """Weights that are far from zero, also where a tool begins with zeros and ones."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)


def make_vit(folder: Path, processor: dict[str, Any] | None = None, made_by: str = "", **settings: Any) -> Any:
    sizes = {**SIZES, "image_size": 32, "patch_size": 8, "id2label": dict(enumerate(NAMES)), **settings}
    model = getattr(transformers, made_by or "ViTForImageClassification")(transformers.ViTConfig(**sizes)).eval()
    stir(model)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | (processor or {})))
    return model


def rename(folder: Path) -> None:
    """The names that transformers 5 has in memory."""
    path = folder / "model.safetensors"
    renamed = {}
    for name, tensor in safetensors.torch.load(path.read_bytes()).items():
        for old, new in NEWER.items():
            name = name.replace(old, new)
        renamed[name] = tensor
    path.write_bytes(safetensors.torch.save(renamed, {"format": "pt"}))


def timm_settings(**arguments: Any) -> dict[str, Any]:
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 12, "depth": 2, "num_heads": 3, "mlp_ratio": 1.5}
    given = {"input_size": [3, 32, 32], "fixed_input_size": True, "interpolation": "bicubic", "crop_pct": 0.9}
    given |= {"crop_mode": "center", "mean": MEAN, "std": DEVIATION, "num_classes": 1000}
    return {
        "architecture": "vit_tiny_patch16_224",
        "num_classes": len(NAMES),
        "label_names": list(NAMES),
        "model_args": sizes | arguments,
        "pretrained_cfg": given,
    }


def make_timm(folder: Path, **arguments: Any) -> None:
    """Without timm: what it would save."""
    settings = timm_settings(**arguments)
    sizes = settings["model_args"]
    d, d_ff, n = sizes["embed_dim"], int(sizes["embed_dim"] * sizes["mlp_ratio"]), (32 // sizes["patch_size"]) ** 2
    class_row = sizes.get("class_token", True)
    shapes = {
        "pos_embed": (1, n + class_row, d),
        "patch_embed.proj.weight": (d, 3, sizes["patch_size"], sizes["patch_size"]),
    }
    shapes |= {"cls_token": (1, 1, d)} if class_row else {}
    products = {"head": (len(NAMES), d)}
    norms = ["norm"]
    for i in range(sizes["depth"]):
        products |= {f"blocks.{i}.attn.qkv": (3 * d, d), f"blocks.{i}.attn.proj": (d, d)}
        products |= {f"blocks.{i}.mlp.fc1": (d_ff, d), f"blocks.{i}.mlp.fc2": (d, d_ff)}
        norms += [f"blocks.{i}.norm1", f"blocks.{i}.norm2"]
    shapes |= {f"{name}.weight": shape for name, shape in products.items()} | {f"{name}.weight": (d,) for name in norms}
    biased = products if sizes.get("qkv_bias", True) else {name: s for name, s in products.items() if "qkv" not in name}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in biased.items()} | {f"{name}.bias": (d,) for name in norms}
    shapes["patch_embed.proj.bias"] = (d,)
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    tensors = {name: torch.randn(shape) * 0.4 for name, shape in shapes.items()}
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(tensors))
    (folder / "config.json").write_text(json.dumps(settings))


def take(folder: Path, run: Path) -> Run:
    """What `regard import` does before the certificate."""
    source = open_source(folder)
    import_source(source, tokenizer_of(source), run)
    return regard.load(run, "cpu")


def save_vit(folder: Path, model: dict[str, Any] | None = None, **task: Any) -> Run:
    """A run of our own, with random weights."""
    tokenizer = Tokenizer.train(NAMES, TokenizerConfig())
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24, "patch": 8, "side": 4, "dropout": 0.0}
    settings = {"labels": tuple(sorted(NAMES)), "pooling": "first", "size": 32, "resize": "stretch"}
    recipe = Recipe(
        name="small",
        kind="images",
        architecture="vit",
        task=ImageLabelsConfig(**(settings | task)),
        data=DataConfig(),
        tokenizer=TokenizerConfig(vocab_size=tokenizer.vocab_size),
        model=ViTConfig(vocab_size=tokenizer.vocab_size, **(sizes | {"mean": (0.4,)} | (model or {}))),
        training=TrainingConfig(),
        decoding=DecodingConfig(),
    )
    folder.mkdir(parents=True)
    recipe.write(folder / "recipe.toml")
    tokenizer.save(folder / "tokenizer.json")
    net = recipe.build_model()
    stir(net)
    save_weights(weights_of(net), folder / "model.safetensors")
    return regard.load(folder, "cpu")
