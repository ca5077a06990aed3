// The hidden states that a head reads from its body: one port, or a mix of all layers.
#pragma once

#include "block.hpp"

#include <vector>

namespace hekla::plugin {

// Returns the states of `port`. For "mix": gamma sum of softmax(w)_l layer_l over layer.0.hidden, layer.1.hidden, ...,
// as tasks use ELMo (Peters et al. 2018, equation 1); w and gamma are trained as head.mix.weights and head.mix.gamma.
inline Value body_states(Graph& g, const std::string& port, Location at = Location::here()) {
    const Caller caller(g, at);
    if (port != "mix") return g.ask(port);
    std::vector<Value> layers;
    const auto name = [](std::size_t layer) { return "layer." + std::to_string(layer) + ".hidden"; };
    while (g.has_port(name(layers.size()))) {
        layers.push_back(g.ask(name(layers.size())));
        const int64_t width = layers.back().dim(-1), first = layers.front().dim(-1);
        if (width != first)
            g.fail("port = \"mix\": " + name(layers.size() - 1) + " has " + std::to_string(width) + " features and " +
                   name(0) + " has " + std::to_string(first) + ": only layers of one width can be mixed");
    }
    if (layers.empty()) g.fail("port = \"mix\": the body offers no layer.0.hidden, layer.1.hidden, ...");
    const auto count = static_cast<int64_t>(layers.size());
    const Value shares = softmax(g.parameter("head.mix.weights", {count}, zeros()));
    Value mixed;
    for (int64_t i = 0; i < count; ++i) {
        const Value share = layers[static_cast<std::size_t>(i)] * slice(shares, 0, i, 1);
        mixed = i == 0 ? share : mixed + share;
    }
    return mixed * g.parameter("head.mix.gamma", {1}, ones());
}

} // namespace hekla::plugin
