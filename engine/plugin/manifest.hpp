// A plugin's manifest: what a library holds, read without running it. LIBRARY.json lies beside LIBRARY.so.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hekla::plugin {

// How tensors of a model's files are explained. All four are data of the architecture, applied by the model room.
struct NameRules {
    std::string prefix; // may be missing in files, eg "transformer."
    std::vector<std::pair<std::string, std::string>>
        renames;                                           // suffix in an old file -> suffix today: "gamma" -> "weight"
    std::vector<std::string> ignore;                       // patterns with *, eg "*.attn.bias"
    std::vector<std::pair<std::string, std::string>> ties; // a name that files may repeat -> the parameter it equals
    std::pair<int64_t, int64_t> grown{0, 0};               // model::NameRules::grown; no manifest's
};

// Another architecture whose trained weights this one can begin with (DistilBERT with BERT's). All of it is applied to
// that model's files before this architecture's own rules.
struct Ancestor {
    std::string model_type;                                 // "bert"
    std::vector<std::pair<std::string, std::string>> keys;  // of its configuration -> of this one's; others are dropped
    std::vector<std::pair<std::string, std::string>> names; // a part of its tensors' names -> what stands there here
    std::vector<std::string> ignore;                        // of its tensors, by their old names: patterns with *
};

// What a class of the reference implementation is made of here.
struct ReferenceClass {
    std::string name; // "GPT2LMHeadModel"
    std::string head;
    std::string objective;
    std::vector<std::pair<std::string, std::string>> outputs; // "hidden_states.*" -> "layer.*.hidden"
    nlohmann::json head_config = nlohmann::json::object();
    nlohmann::json objective_config = nlohmann::json::object();
};

// What a number may be, both ends included.
struct Range {
    std::optional<double> minimum, maximum;
};

// One thing that a library offers.
struct Provided {
    std::string interface_id; // "hekla.architecture/1"
    std::string id;           // "gpt2"
    std::string about;
    nlohmann::json defaults = nlohmann::json::object(); // every parameter that has a default
    std::vector<std::string> parameters;                // every key it knows
    std::map<std::string, Range> ranges;                // of those that have one
    std::vector<std::string> ignored;                   // keys that change nothing here (patterns with *)
    // Objectives: "yes" where each token is predicted from those before it, so that a body must not see what stands
    // behind. Architectures: "yes" where it does not, or the key of the configuration that says so.
    std::string causal;
    // Objectives only: what the special tokens of a tokenizer that is trained for them stand for ("mask").
    std::vector<std::string> roles;
    // How `hekla plugin check` makes a small network with it: check/trial.hpp.
    nlohmann::json check = nlohmann::json::object();
    // Architectures only:
    std::vector<std::string> model_types;
    NameRules names;
    std::vector<Ancestor> begins_as;
    const Ancestor* ancestor(std::string_view model_type) const; // of begins_as, or null
    std::vector<ReferenceClass> classes;
};

struct Manifest {
    std::filesystem::path file;    // of the manifest
    std::filesystem::path library; // absolute
    std::string plugin, version, licence;
    std::string sha256;    // of the library, as the build wrote it down; empty: it did not
    bool built_in = false; // it lies in the installation's own folder
    uint32_t abi_major = 0, abi_minor_needed = 0;
    // Interfaces that are not stable yet and that it uses or provides; empty: it claims to be stable. [drafts.2]
    std::vector<std::string> drafts;
    std::vector<Provided> provides;
};

// Whether an interface of that id is a draft: "hekla.adapter.draft/1".
bool is_draft(std::string_view interface_id);

// Reads and checks one manifest. Errors name the file, the key and what was expected.
Result<Manifest> read_manifest(const std::filesystem::path& file);

} // namespace hekla::plugin
