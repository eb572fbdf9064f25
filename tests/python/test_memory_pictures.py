"""The forecast of `tpplan compile` for activations saved for backward in image and sound models, compared with torch's
saved_tensors_hooks: convolutions, channel norms, pools, interpolation. Within 1 %, as for language models (test_memory.py)."""

import json

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402
import transformers  # noqa: E402
from test_memory import Saved, kept, near  # noqa: E402
from torch import nn  # noqa: E402

from tpplan.export import operations, torch_module  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

PICTURES = {"pixel_values": (2, 3, 32, 32)}
STAGES = dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1])
PLAN = 'format: tpplan.plan/1\nmesh: {tp: 1}\ntp_plan: {"*": replicate}\n'


class Layers(nn.Module):
    """Most of torch's image modules in sequence."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 8), nn.SiLU(),
            nn.ConvTranspose2d(8, 8, 2, stride=2), nn.AvgPool2d(2), nn.Upsample(scale_factor=2), nn.Conv2d(8, 8, 1),
            nn.InstanceNorm2d(8, affine=True), nn.Hardtanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 8),
        )  # fmt: skip

    def forward(self, pixel_values):
        return self.layers(pixel_values)


def of_transformers(name, config, **sizes):
    return lambda: getattr(transformers, name)(getattr(transformers, config)(**sizes))


MODELS = {
    "layers": (Layers, PICTURES),
    "resnet": (of_transformers("ResNetForImageClassification", "ResNetConfig", embedding_size=8, **STAGES), PICTURES),
    "convnext": (of_transformers("ConvNextForImageClassification", "ConvNextConfig", **STAGES), PICTURES),
    "segformer": (
        of_transformers("SegformerForSemanticSegmentation", "SegformerConfig", num_attention_heads=[1, 2, 2, 4],
                        decoder_hidden_size=16, **STAGES), PICTURES),
    "swin": (
        of_transformers("SwinForImageClassification", "SwinConfig", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
                        num_heads=[2, 4], window_size=4, hidden_dropout_prob=0.0, drop_path_rate=0.0), PICTURES),
    "wav2vec2": (
        of_transformers("Wav2Vec2ForCTC", "Wav2Vec2Config", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=48, vocab_size=40, conv_dim=[8, 8], conv_stride=[5, 2], conv_kernel=[10, 3],
                        num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2),
        {"input_values": (2, 400)}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_saved_bytes_of_an_image_or_sound_model(name, tmp_path):
    make, shapes = MODELS[name]
    settings = Settings(inputs={key: {"shape": list(shape), "dtype": "float32"} for key, shape in shapes.items()})
    with torch.device("meta"):
        model = make().eval()
    text = operations.record(torch_module, model, "meta", settings)
    graph = torch_module.model_graph(model) | {"graph": json.loads(text)}
    (tmp_path / "model.json").write_text(json.dumps(graph))
    (tmp_path / "plan.yaml").write_text(PLAN)
    result = bridge.run("compile", tmp_path / "model.json", tmp_path / "plan.yaml")
    assert result.returncode == 0, result.stderr.decode()
    (tmp_path / "manifest.json").write_bytes(result.stdout)
    torch.manual_seed(0)
    model, inputs = make().eval(), {key: torch.randn(shape) for key, shape in shapes.items()}
    assert near(kept(tmp_path / "manifest.json"), Saved(model, inputs).of(lambda: model(**inputs)))
