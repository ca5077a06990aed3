#include "train/recipe/recipe_reference.hpp"

#include "train/recipe/recipe_sections.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

constexpr const char* kIntroduction = R"(# Recipes

<!-- Generated from engine/train/recipe/recipe_keys.inc: `hekla recipe keys --markdown > docs/recipes.md`. Do not edit. -->

A recipe is a [TOML](https://toml.io) file that describes one run. `hekla train recipe.toml` trains it, or resumes it if the
folder `output.dir` has a checkpoint. The smallest recipe:

```toml
[model]
architecture = "gpt2"

[data]
train = "text.txt"

[output]
dir = "out/first"
```

Every other key has a default. The run's folder and each checkpoint contain `recipe.toml`, the recipe with every key
written out. An unknown section or key is an error that names the nearest known one.

## Overrides

Any key can be set on the command line, after the recipe. The form is `SECTION.KEY=VALUE`; the value is TOML, and a value
that is not valid TOML is a string:

```text
hekla train recipe.toml train.max_steps=200 train.learning_rate=3e-4 output.dir=out/second
hekla train recipe.toml 'data.train=["a.txt", "b.txt"]' 'train.freeze=["embeddings"]'
hekla train recipe.toml schedules.mix=0.5 schedules.gate.kind=linear schedules.gate.value=1
```

A list of all keys for scripts and completions: `hekla recipe keys --json`.

## Keys of plugins

`[model]`, `[objective]`, `[head]`, `[adapter]` and `[optimizer]` also take the keys of the plugin that they name, and `[generate]` takes
the options of generation. A plugin's manifest describes its keys under `parameters`, with their defaults and ranges;
`hekla plugin list --json` prints the keys and defaults of all installed plugins. `hekla describe ID --set KEY=VALUE` shows
the graph that they give. An unknown key of a plugin is an error, too.

## Resuming

The column *resume* tells what happens if a run is continued with another value of a key:

* `yes`: it continues.
* `warns`: it continues with a warning, and its result differs from that of a run whose key was never changed.
* `no`: it is refused, because the checkpoint does not match.

A checkpoint records the share of the data that is held out for validation: it depends on the keys of [data] alone, not on
`train.eval_steps`. If other keys change the learning rate of the next step (`train.max_steps` raised, another warm-up), a warning
has the old and the new rate.

A checkpoint has its own copies of the model and tokenizer, so the paths `model.from` and `tokenizer.from` may change.

## Schedules of step scalars

A plugin's graph can contain numbers that change from step to step (`step_scalar` in the plugin guide). `[schedules]` sets
them by name; without a schedule a scalar keeps the initial value that the plugin gave it. Each step's values are in
`train_log.jsonl` under `scalars`.

```toml
[schedules]
temperature = 0.5                                                  # a constant
mix = {kind = "cosine", value = 1.0, end_value = 0.1, warmup_steps = 100}
stage = {kind = "steps", values = [[1, 0.0], [500, 0.5], [1000, 1.0]]} # 0.5 from step 500 on
```

A training sets two scalars itself, unless a schedule does: `train.step`, the number of the step from 0, and `train.progress`, that
number divided by the steps of the run.

An evaluation during training uses the values of the last step. A trained model is run with the initial values, so a
schedule should end there. A host can set a scalar with `hk_session_set_scalar`; that replaces the schedule, and
checkpoints keep the value.

## Steps that take turns

Where the losses of an objective name the parameters that they train, as those of a generator and a discriminator do, every step
minimizes all of them at once. `train.alternate` makes steps take turns instead:

```toml
[train]
alternate = ["discriminator", "discriminator", "generator"]   # losses, by name: two steps of one, one of the other
```

A step updates what its losses name. Other parameters stay as they are, with the states of their optimizer and its count of steps. The
learning rate, schedules and evaluations go by the steps of the run. `"a+b"` is two losses in one step. Not with several ranks or `fp16`.

## Optimizers

`train.optim` chooses AdamW or SGD, whose updates are one kernel. `[optimizer]` chooses among all optimizers, with options as PyTorch
names them:

```toml
[optimizer]
name = "muon"
momentum = 0.95
lr = 2e-3                                # peak rate; without it that of [train]
rules = {"lm_head.*" = "adamw", "*.bias" = "lion"}

[optimizer.lion]                         # options of an optimizer that a rule names
lr = 1e-4
```

| name | keeps of a matrix | options |
| --- | --- | --- |
| `adamw` | two averages | `betas`, `eps`, `weight_decay` |
| `sgd` | with `momentum` one momentum | `momentum`, `dampening`, `nesterov`, `weight_decay` (added to the gradient) |
| `lion` | one average | `betas`, `weight_decay` |
| `adafactor` | a row and a column | `beta2_decay`, `eps`, `d`, `weight_decay` |
| `muon` | one momentum; for matrices that are not tables of embeddings | `momentum`, `nesterov`, `ns_coefficients`, `ns_steps`, `eps`, `adjust_lr_fn`, `weight_decay` |

What `muon` does not take is updated by `adamw`, whose options are those of [train] or of `[optimizer.adamw]`. Muon's authors give the last
layer to AdamW, too: a rule does that where it is not tied to the embedding. `train.learning_rates` sets the peak rate of parameters
whichever optimizer updates them, `train.layer_lr_decay` multiplies all rates, and norms and biases never decay. Other optimizers than
AdamW or SGD for all parameters train on one device and without pruning masks.

## Lottery tickets

`hekla prune recipe.toml` trains the network (`round-00`), prunes a share of its weights, sets the others back to what they
were (`rewind`), trains again (`round-01`), and so on: iterative magnitude pruning (Frankle and Carbin 2018,
arXiv 1803.03635).

```toml
[prune]
amount = 0.2      # of the weights that are left, each round: after ten rounds 10.7% are left
rounds = 10
rewind_step = 100 # set weights back to those after step 100, not to the initial ones (arXiv 1903.01611)
```

| `reinitialize` | a round starts from |
| --- | --- |
| `"rewind"` | the initial weights; with `rewind_step`, the weights, moments and step of that checkpoint of `round-00` |
| `"random"` | new random values: shows what the mask alone is worth |
| `"none"` | the trained weights of the round before, at step 0: pruning followed by fine-tuning |

A pruned weight is exactly 0 in every step: its gradient is set to 0 before the gradient norm is computed, so clipping does
not see it and its moments stay 0, and weight decay of 0 is 0. The number of pruned weights is exact (rounded to the nearest);
of equal magnitudes the first are pruned, by the order of names and positions. Tied parameters are one parameter.

A round's folder is that of an ordinary run, with `mask.safetensors` in it: a u8 tensor of 0 (pruned) and 1 (kept) for each
pruned parameter, under its name. `prune.from_mask` trains with such a file, whichever program wrote it:

```text
hekla train recipe.toml prune.from_mask=out/tickets/round-05/mask.safetensors output.dir=out/ticket
```
)";

const char* resume_text(Resume resume) {
    switch (resume) {
    case Resume::refused: return "no";
    case Resume::warned:
    case Resume::learning: return "warns";
    case Resume::fitted: return "warns, unless `train.fit` is true";
    case Resume::split: return "no, if examples would move between training and validation";
    case Resume::model: return "no, if it is another model, and the run reads it";
    case Resume::data:
    case Resume::rows: return "no, if it changes the training examples";
    case Resume::free: return "yes";
    }
    return "";
}

// Escapes text for a table cell.
std::string cell(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

std::string code(const std::string& text) { return text.empty() ? "" : fmt::format("`{}`", cell(text)); }

} // namespace

std::string recipe_markdown() {
    std::string out = kIntroduction;
    for (const RecipeSection& section : recipe_sections()) {
        out += fmt::format("\n## [{}]\n\n{}\n\n", section.name, section.meaning);
        out += "| key | type | default | unit, range | meaning | resume |\n| --- | --- | --- | --- | --- | --- |\n";
        for (const RecipeKey& key : section.keys)
            out +=
                fmt::format("| {} | {} | {} | {} | {} | {} |\n", key.name.empty() ? "*other keys*" : code(key.name),
                            key.type, code(key.fallback), cell(key.range), cell(key.meaning), resume_text(key.resume));
    }
    return out;
}

nlohmann::ordered_json recipe_json() {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const RecipeSection& section : recipe_sections())
        for (const RecipeKey& key : section.keys)
            all.push_back({{"section", section.name},
                           {"key", key.name},
                           {"type", key.type},
                           {"default", key.fallback},
                           {"range", key.range},
                           {"resume", resume_text(key.resume)},
                           {"meaning", key.meaning}});
    return all;
}

std::string recipe_text() {
    std::string out;
    for (const RecipeSection& section : recipe_sections()) {
        out += fmt::format("{}[{}] {}\n", out.empty() ? "" : "\n", section.name, section.meaning);
        for (const RecipeKey& key : section.keys) {
            if (key.name.empty()) {
                out += fmt::format("  {}\n", key.meaning);
                continue;
            }
            out +=
                fmt::format("  {} ({}{}{})\n      {}\n", key.name, key.type, key.range.empty() ? "" : ", " + key.range,
                            key.fallback.empty() ? "" : ", default " + key.fallback, key.meaning);
        }
    }
    return out;
}

} // namespace hekla::train
