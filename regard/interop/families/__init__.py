"""The families of models that other tools know, one file each."""

from regard.interop.families.bart import BART, MARIAN, PEGASUS
from regard.interop.families.bert import BERT, DISTILBERT, ELECTRA, ROBERTA
from regard.interop.families.family import Family
from regard.interop.families.gpt2 import GPT2
from regard.interop.families.llama import LLAMA, QWEN2, QWEN3
from regard.interop.families.t5 import T5
from regard.interop.families.vit import VIT
from regard.interop.families.xlnet import XLNET

# Those that can be imported and exported, by the `model_type` of their config.json.
FAMILIES: dict[str, Family] = {
    "gpt2": GPT2,
    "bert": BERT,
    "roberta": ROBERTA,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "bart": BART,
    "marian": MARIAN,
    "pegasus": PEGASUS,
    "t5": T5,
    "xlnet": XLNET,
    "vit": VIT,
}
