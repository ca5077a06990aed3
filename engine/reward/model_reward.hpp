// A reward that is a trained model: the number of a reward model, or the log odds of a class.
#pragma once

#include "base/log.hpp"
#include "base/strict_table.hpp"
#include "infer/open/model.hpp"
#include "program/runtime_source.hpp"
#include "reward/reward.hpp"

#include <memory>

namespace hekla::reward {

// `from`: the folder of a model whose head gives one number a text (objective `reward`), or of a classifier with
// `label`, whose log odds log(p / (1 - p)) are the score. It reads the prompt and the completion as one text, or with
// `reads` = "completion" that alone, divided by its own tokenizer. A text that its tokenizer cannot divide is not
// scored. Errors: a folder that is not such a model, an unknown label.
// registry and runtime must outlive the result.
Result<std::unique_ptr<Reward>> make_model_reward(StrictTable& keys, const plugin::Registry& registry,
                                                  const program::RuntimeSource& device, const Log& log);

} // namespace hekla::reward
