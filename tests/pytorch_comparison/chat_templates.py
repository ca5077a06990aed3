#!/usr/bin/env python3
"""Writes tests/fixtures/chat: conversations as transformers' apply_chat_template renders and tokenizes them.

    tests/pytorch_comparison/chat_templates.py

The templates are the built-in ones (engine/text/named_chat_templates.cpp) and those of the folder. A case has the text, the
token ids and, for templates with {% generation %}, the mask of the assistant's tokens; or "error": true.
"""
import json
import pathlib
import re

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/fixtures/chat"
SPECIAL = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
TEXT = ["Hello, what is two and two? It is four. The answer is four, and the question was about numbers.",
        "### Instruction:\nWrite a poem.\n\n### Response:\nThe sea is wide.\n", "[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST]",
        "You are a kind assistant that answers in one sentence. Thank you!"]

SYSTEM = {"role": "system", "content": "You are kind."}
USER = {"role": "user", "content": "  Hello \"there\", what is <2+2>? \u00e9\n"}
ANSWER = {"role": "assistant", "content": "It is four. "}
MORE = {"role": "user", "content": "And three?"}
THOUGHT = {"role": "assistant", "content": "<think>\nnumbers\n</think>\n\nfour"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": {"b": 2, "a": [1.5, None]}}}]}
CONVERSATIONS = [[USER], [SYSTEM, USER], [USER, ANSWER], [SYSTEM, USER, ANSWER, MORE], [USER, ANSWER, MORE, ANSWER],
                 [USER, THOUGHT, MORE, THOUGHT], [USER, CALL, {"role": "tool", "content": "4"}, ANSWER],
                 [{"role": "oracle", "content": "?"}, ANSWER]]


def make_tokenizer() -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False,
                                                      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    raw.save(str(FOLDER / "tokenizer.json"))
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"}, indent=1))
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def main() -> None:
    tokenizer = make_tokenizer()
    source = (ROOT / "engine/text/named_chat_templates.cpp").read_text()
    templates = dict(re.findall(r'\{"(\w+)",\s*R"\((.*?)\)"\}', source, re.S))
    templates |= {path.name: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))}
    cases = []
    for name, template in templates.items():
        for messages in CONVERSATIONS:
            for answer_follows in (False, True):
                case = {"template": name, "messages": messages, "answer_follows": answer_follows}
                tokenizer.chat_template = template
                try:
                    case["text"] = tokenizer.apply_chat_template(messages, add_generation_prompt=answer_follows, tokenize=False)
                    marked = "{%- generation %}" in template and not answer_follows
                    both = tokenizer.apply_chat_template(messages, add_generation_prompt=answer_follows, return_dict=True,
                                                         return_assistant_tokens_mask=marked)
                    case["ids"] = both["input_ids"]
                    if marked:
                        case["mask"] = both["assistant_masks"]
                except Exception as error:  # the template refuses the messages, or reads what they do not have
                    case = {key: case[key] for key in ("template", "messages", "answer_follows")} | {"error": True}
                    print(name, [m["role"] for m in messages], type(error).__name__, str(error).splitlines()[0])
                cases.append(case)
    rows = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (FOLDER / "cases.json").write_text(f'{{"cases":[\n{rows}\n]}}\n')
    print(len(cases), "cases of", len(templates), "templates")


if __name__ == "__main__":
    main()
