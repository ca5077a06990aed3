// Where the combiners of a model weigh adapters, from the names in its folder.
#pragma once

#include <string>
#include <vector>

namespace observatory {

// A place where a combiner weighs branches.
struct RoutingSite {
    std::string port;            // output of the network: float [..., branches]
    std::string name;            // of the module: "transformer.h.0.attn.c_attn"
    std::string combiner;        // the text of what weighs: "soft(a,b)"
    std::vector<std::string> of; // what it weighs: names of adapters, or texts of combinations
};

// Returns the sites of a combination ("stack(a, soft(b, c))") in the order of the parameters. modules: the names of the
// modules that adapters act at. parameters: names of all of the model's parameters; a combiner has a site where it has
// parameters ("adapter.combine.1.MODULE.router.weight" is of the second part). Combiners without parameters, whose
// weights do not depend on the text, have none. Throws a Failure if the text is not a combination.
std::vector<RoutingSite> routing_sites(const std::string& combination, const std::vector<std::string>& modules,
                                       const std::vector<std::string>& parameters);

// Returns whether a module of an encoder-decoder reads what the decoder has written: one of the decoder, except the
// keys and values of its attention to the encoder, by the names of BART and T5.
bool reads_written_text(const std::string& module);

} // namespace observatory
