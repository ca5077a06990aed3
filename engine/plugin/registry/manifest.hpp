// A plugin's manifest: the contents of a library, known without loading it. LIBRARY.json is next to LIBRARY.so.
#pragma once

#include "base/read_only_arena.hpp"
#include "base/status.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace hekla::plugin {

inline constexpr std::size_t kLongestChain = 64; // of plugins that need each other

// These are views into the arena given to read_manifest(), and copies are views too.
struct TextPair {
    std::string_view from, to;
};
using Texts = std::span<const std::string_view>;
using TextPairs = std::span<const TextPair>;

// A JSON object stored as text and parsed when needed, which needs one allocation instead of many.
struct JsonText {
    std::string_view text = "{}";
    nlohmann::json parse() const;
};

// Maps the tensor names in a model's files to those of the architecture. Applied by the model room.
struct NameRules {
    std::string_view prefix; // may be missing in files, e.g. "transformer."
    TextPairs renames;       // ending in a file -> ending of the parameter: "gamma" -> "weight"; with a dot at its
                             // end a beginning: "language_model." -> ""
    Texts ignore;            // tensors to skip; patterns with *, e.g. "*.attn.bias"
    Texts stacks;            // endings of those that a parameter stacks, # for their number: "experts.#.up_proj.weight"
    TextPairs ties;          // name that files may contain in addition -> the parameter that it equals
};

// Another architecture whose trained weights this one can start from (DistilBERT from BERT's). Its rules are applied to
// that model's files before this architecture's own rules.
struct Ancestor {
    std::string_view model_type; // "bert"
    TextPairs keys;              // key of its configuration -> our key; other keys are dropped
    TextPairs names;             // part of its tensors' names -> our part
    Texts ignore;                // its tensors to skip, by their own names; patterns with *
};

// A class of the reference implementation, as a head and an objective of Hekla.
struct ReferenceClass {
    std::string_view name; // "GPT2LMHeadModel"
    std::string_view head;
    std::string_view objective;
    TextPairs outputs; // "hidden_states.*" -> "layer.*.hidden"
    JsonText head_config;
    JsonText objective_config;
};

// Allowed range of a number, inclusive.
struct Range {
    std::string_view key;
    std::optional<double> minimum, maximum;
};

// One interface that a library provides.
struct Provided {
    std::string_view interface_id; // "hekla.architecture/1"
    std::string_view id;           // "gpt2"
    std::string_view about;
    JsonText defaults;             // values of all parameters with a default
    Texts parameters;              // all keys of its configuration
    std::span<const Range> ranges; // ranges of parameters, sorted by key
    Texts nullable;                // parameters whose null is a value, not replaced by the default
    Texts ignored;                 // keys without an effect; patterns with *
    // Objectives: "yes" if each token is predicted from the earlier ones, so that the body must not use later ones.
    // Architectures: "yes" if no token depends on later ones, or the configuration key that selects this.
    std::string_view causal;
    // Objectives: whether their batches may have rows of several examples (row_packing.hpp). Architectures: whether a
    // token then sees those of its own segment alone.
    bool segments = false;
    // Objectives only: roles of special tokens that a tokenizer trained for them must have ("mask").
    Texts roles;
    // Settings of `hekla plugin check`: see check/trial.hpp.
    JsonText check;
    // Architectures only:
    Texts model_types;
    NameRules names;
    std::span<const Ancestor> begins_as;
    const Ancestor* ancestor(std::string_view model_type) const; // element of begins_as, or null
    std::span<const ReferenceClass> classes;
};

// Another plugin that a plugin cannot run without.
struct Need {
    std::string_view plugin;
    std::string_view version; // a VersionRange; empty: any
};

struct Manifest {
    std::string_view file;    // path of the manifest
    std::string_view library; // absolute path
    std::string_view plugin, version, licence;
    std::string_view sha256; // of the library, in hexadecimal; empty: not checked
    bool built_in = false;   // in the installation's own folder
    uint32_t abi_major = 0, abi_minor_needed = 0;
    // Ids of unstable interfaces that it uses or provides; empty: it is declared stable. [drafts.2]
    Texts drafts;
    std::span<const Need> needs;
    std::span<const Provided> provides;
};

// Returns whether this is the id of a draft: "hekla.rollout.draft/1".
bool is_draft(std::string_view interface_id);

// Reads and checks one manifest. Its texts and lists are stored in `kept`, some of them even after an error. Errors
// contain the file, the key, the value found and the value expected; syntax errors the line and column.
Result<Manifest> read_manifest(const std::filesystem::path& file, ReadOnlyArena& kept);
Result<Manifest> read_manifest(const std::filesystem::path& file, StringInterner& kept); // for reading several

} // namespace hekla::plugin
