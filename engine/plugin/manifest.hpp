// A plugin's manifest: what a library holds, read without running it. LIBRARY.json lies beside LIBRARY.so.
#pragma once

#include "base/read_only_arena.hpp"
#include "base/status.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace hekla::plugin {

// All of this is views of what read_manifest() kept, and is copied as such.
struct TextPair {
    std::string_view from, to;
};
using Texts = std::span<const std::string_view>;
using TextPairs = std::span<const TextPair>;

// An object as its text: parsed, it would be many small pieces of memory for what is asked for now and then.
struct JsonText {
    std::string_view text = "{}";
    nlohmann::json parse() const;
};

// How tensors of a model's files are explained. All four are data of the architecture, applied by the model room.
struct NameRules {
    std::string_view prefix; // may be missing in files, eg "transformer."
    TextPairs renames;       // suffix in an old file -> suffix today: "gamma" -> "weight"
    Texts ignore;            // patterns with *, eg "*.attn.bias"
    TextPairs ties;          // a name that files may repeat -> the parameter it equals
};

// Another architecture whose trained weights this one can begin with (DistilBERT with BERT's). All of it is applied to
// that model's files before this architecture's own rules.
struct Ancestor {
    std::string_view model_type; // "bert"
    TextPairs keys;              // of its configuration -> of this one's; others are dropped
    TextPairs names;             // a part of its tensors' names -> what stands there here
    Texts ignore;                // of its tensors, by their old names: patterns with *
};

// What a class of the reference implementation is made of here.
struct ReferenceClass {
    std::string_view name; // "GPT2LMHeadModel"
    std::string_view head;
    std::string_view objective;
    TextPairs outputs; // "hidden_states.*" -> "layer.*.hidden"
    JsonText head_config;
    JsonText objective_config;
};

// What the number of a key may be, both ends included.
struct Range {
    std::string_view key;
    std::optional<double> minimum, maximum;
};

// One thing that a library offers.
struct Provided {
    std::string_view interface_id; // "hekla.architecture/1"
    std::string_view id;           // "gpt2"
    std::string_view about;
    JsonText defaults;             // every parameter that has a default
    Texts parameters;              // every key it knows
    std::span<const Range> ranges; // of those that have one, by key
    Texts ignored;                 // keys that change nothing here (patterns with *)
    // Objectives: "yes" where each token is predicted from those before it, so that a body must not see what stands
    // behind. Architectures: "yes" where it does not, or the key of the configuration that says so.
    std::string_view causal;
    // Objectives only: what the special tokens of a tokenizer that is trained for them stand for ("mask").
    Texts roles;
    // How `hekla plugin check` makes a small network with it: check/trial.hpp.
    JsonText check;
    // Architectures only:
    Texts model_types;
    NameRules names;
    std::span<const Ancestor> begins_as;
    const Ancestor* ancestor(std::string_view model_type) const; // of begins_as, or null
    std::span<const ReferenceClass> classes;
};

struct Manifest {
    std::string_view file;    // of the manifest
    std::string_view library; // absolute
    std::string_view plugin, version, licence;
    std::string_view sha256; // of the library, as the build wrote it down; empty: it did not
    bool built_in = false;   // it lies in the installation's own folder
    uint32_t abi_major = 0, abi_minor_needed = 0;
    // Interfaces that are not stable yet and that it uses or provides; empty: it claims to be stable. [drafts.2]
    Texts drafts;
    std::span<const Provided> provides;
};

// Whether an interface of that id is a draft: "hekla.adapter.draft/1".
bool is_draft(std::string_view interface_id);

// Reads and checks one manifest, whose texts and lists lie in `kept` (of a damaged one some of them, too). Errors name
// the file, the key and what was expected.
Result<Manifest> read_manifest(const std::filesystem::path& file, ReadOnlyArena& kept);
Result<Manifest> read_manifest(const std::filesystem::path& file, StringInterner& kept); // one of many

} // namespace hekla::plugin
