// What a host and a process with plugins say to each other (base/channel.hpp). The host asks for one thing at a time;
// until its answer comes the process may say what it is doing, log, and ask back.
#pragma once

#include "base/wire.hpp"
#include "plugin/plugin_set.hpp"

#include <deque>

namespace hekla::plugin {

// Of this format and of what it carries; both sides are of one build.
inline constexpr const char* kProtocol = "hekla-describe 1 of 0.1.0";

enum class MessageKind : uint32_t {
    // Of the host.
    create = 1,
    build,
    parameters,
    write_config,
    decode_ports,
    example_kind,
    can_collate,
    tokens_per_example,
    columns,
    batch_fields,
    example_length,
    collate, // examples and fields are in the shared memory
    decode,  // outputs and fields are
    reply,   // to ask_*
    // Of the process.
    answer = 64,   // flag: ok, then what was asked for; else code, message, and the manifest of who is to blame, or ""
    doing,         // manifest, function: what runs now
    out_of_memory, // said by a handler of signals: no memory could be had
    log,           // severity, text
    ask_special,   // role
    ask_words,     // one byte an id: bit 0 begins a word, bit 1 ends a sentence
    ask_decode,    // ids
    ask_example,   // index, of the batch's corpus
};

void put_fields(WireWriter& out, std::span<const BatchField> fields);
std::vector<BatchField> get_fields(WireReader& in, Status& status); // kinds and sizes are checked

void put_spec(WireWriter& out, const PartsSpec& spec);
Result<PartsSpec> get_spec(WireReader& in);

void put_read_keys(WireWriter& out, const ReadKeys& read);
ReadKeys get_read_keys(WireReader& in, int depth = 0);

void put_example(WireWriter& out, const hk_example& example);

// Examples as they were put, pointing into what was read.
class ReadExamples {
public:
    hk_example get(WireReader& in);

private:
    std::deque<std::vector<hk_column>> columns_;
};

} // namespace hekla::plugin
