// attention in decode mode: new keys and values go into the cache, then queries attend to what is there.
#include "program/lower_attention.hpp"

namespace hekla::program {

Status lower_attention_cached(Lowering&, graph::NodeId) { return unsupported("attention_cached"); }

} // namespace hekla::program
