// Messages between a host and a worker process with plugins (base/channel.hpp). The host sends one request at a time;
// before the answer, the process may report what it runs, log, and ask questions.
#pragma once

#include "base/wire.hpp"
#include "plugin/composition/plugin_set.hpp"

#include <deque>

namespace hekla::plugin {

// Version of the format and its contents; both sides must be from the same build.
inline constexpr const char* kProtocol = "hekla-describe 4 of 0.1.0";

enum class MessageKind : uint32_t {
    // From the host.
    create = 1,
    build,
    parameters,
    write_config,
    write_adapter_config,
    virtual_tokens,
    decode_ports,
    example_kind,
    can_collate,
    tokens_per_example,
    columns,
    batch_fields,
    example_length,
    collate, // examples and fields are in the shared memory
    decode,  // outputs and fields are
    takes,   // optimizer, parameter
    update,  // optimizer, parameter
    reply,   // to ask_*
    // From the process.
    answer = 64,   // flag: ok, then the result; else code, message, and the manifest of the plugin that failed, or ""
    doing,         // manifest, function: the plugin function that runs now
    out_of_memory, // sent by a signal handler when an allocation failed
    log,           // severity, text
    ask_special,   // role
    ask_words,     // one byte per id: bit 0: begins a word, bit 1: ends a sentence
    ask_decode,    // ids
    ask_example,   // index, of the batch's corpus
};

void put_fields(WireWriter& out, std::span<const BatchField> fields);
std::vector<BatchField> get_fields(WireReader& in, Status& status); // kinds and sizes are checked

void put_sites(WireWriter& out, std::span<const Site> sites);
std::vector<Site> get_sites(WireReader& in);

void put_spec(WireWriter& out, const PartsSpec& spec);
Result<PartsSpec> get_spec(WireReader& in);

void put_read_keys(WireWriter& out, const ReadKeys& read);
ReadKeys get_read_keys(WireReader& in, int depth = 0);

// What an optimizer is asked about.
void put_parameter(WireWriter& out, const OptimizedParameter& parameter);
OptimizedParameter get_parameter(WireReader& in, Status& status);
void put_states(WireWriter& out, std::span<const UpdateState> states);
std::vector<UpdateState> get_states(WireReader& in, Status& status);

void put_example(WireWriter& out, const hk_example& example);

// Reads examples; they point into the message.
class ReadExamples {
public:
    hk_example get(WireReader& in);

private:
    std::deque<std::vector<hk_column>> columns_;
};

} // namespace hekla::plugin
