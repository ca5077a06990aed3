// The options --adapter and --combine of verbs that use a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hekla::app {

inline CLI::Option* add_adapter_option(CLI::App& parser, std::vector<std::string>& adapters,
                                       const std::string& note = "") {
    CLI::Option* const adapter =
        parser
            .add_option(
                "--adapter", adapters,
                "NAME=FOLDER or NAME=FOLDER:SCALE: a trained adapter on the model (the folder of a run, of PEFT "
                "or of AdapterHub); several: all of them act" +
                    note)
            ->allow_extra_args(false);
    // After --adapter, whose values replace the list.
    parser
        .add_option_function<std::vector<std::string>>(
            "--combine",
            [&adapters](const std::vector<std::string>& given) {
                for (const std::string& one : given)
                    adapters.push_back("combine." + (one.find('=') == std::string::npos ? "how=" + one : one));
            },
            "how several adapters act together, as `how` of a recipe's [combine]: \"arrow(a, b)\", \"average(a, b)\"; "
            "or another of its keys, such as top_k=1; may be given several times")
        ->allow_extra_args(false)
        ->needs(adapter);
    return adapter;
}

} // namespace hekla::app
