// The option --adapter of verbs that use a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hekla::app {

inline CLI::Option* add_adapter_option(CLI::App& parser, std::vector<std::string>& adapters,
                                       const std::string& note = "") {
    return parser
        .add_option("--adapter", adapters,
                    "NAME=FOLDER or NAME=FOLDER:SCALE: a trained adapter on the model (the folder of a run, of PEFT or "
                    "of AdapterHub); several: all of them act" +
                        note)
        ->allow_extra_args(false);
}

} // namespace hekla::app
