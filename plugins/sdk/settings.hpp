// An architecture's configuration as one list of keys and the members they set. The same list reads config.json and
// writes it back, so that both always agree.
//
// struct Settings {
//     int64_t width = 0;
//     std::optional<double> rate; // null if not given
//     template<class V> void keys(V&& v) { v("hidden_size", width); v("rate", rate); }
// };
#pragma once

#include "hekla_plugin.hpp"

#include <optional>

namespace hekla::plugin {

// Fills members from a configuration. A member without std::optional must be given or have a default in the manifest.
class SettingsReader {
public:
    explicit SettingsReader(const Config& config) : config_(config) {}
    void operator()(const char* key, int64_t& member) const { member = config_.integer(key); }
    void operator()(const char* key, double& member) const { member = config_.real(key); }
    void operator()(const char* key, bool& member) const { member = config_.boolean(key); }
    void operator()(const char* key, std::string& member) const { member = config_.string(key); }
    template<class T>
    void operator()(const char* key, std::optional<T>& member) const {
        if (!config_.has(key)) return;
        member.emplace();
        (*this)(key, *member);
    }

private:
    const Config& config_;
};

class SettingsWriter {
public:
    explicit SettingsWriter(ConfigWriter& out) : out_(out) {}
    template<class T>
    void operator()(const char* key, const T& member) const {
        out_.set(key, member);
    }
    template<class T>
    void operator()(const char* key, const std::optional<T>& member) const {
        if (member)
            out_.set(key, *member);
        else
            out_.set_null(key);
    }

private:
    ConfigWriter& out_;
};

template<class Settings>
Settings read_settings(const Config& config) {
    Settings settings;
    settings.keys(SettingsReader(config));
    return settings;
}

template<class Settings>
void write_settings(ConfigWriter& out, const char* model_type, Settings settings) {
    out.set("model_type", model_type);
    settings.keys(SettingsWriter(out));
}

// The classes of a classifier.
struct Labels {
    int64_t count = 2;
    bool named = false; // by id2label, which is then written back unchanged
    operator int64_t() const { return count; }
};
// Returns num_labels, or the size of id2label (which the reference writes), or the usual number.
inline Labels label_count(const Config& config, int64_t usual = 2) {
    if (config.has("num_labels")) return {config.integer("num_labels"), false};
    if (config.has("id2label")) return {static_cast<int64_t>(config.count("id2label")), true};
    return {usual, false};
}
inline void write_labels(ConfigWriter& out, const Labels& labels, int64_t usual = 2) {
    if (labels.named || labels.count == usual) return;
    for (int64_t i = 0; i < labels.count; ++i) {
        const std::string id = std::to_string(i), name = "LABEL_" + id;
        out.set("id2label." + id, name);
        out.set("label2id." + name, i);
    }
}

// Refuses values that cannot be a network; `what` contains the keys.
inline void require(bool holds, const std::string& what) {
    if (!holds) throw invalid(what);
}
// Checks the usual sizes of a transformer.
inline void require_heads(int64_t width, int64_t heads, const char* width_key, const char* heads_key) {
    require(width > 0 && heads > 0, std::string(width_key) + " and " + heads_key + " must be positive");
    require(width % heads == 0, std::string(width_key) + " = " + std::to_string(width) + " is not a multiple of " +
                                    heads_key + " = " + std::to_string(heads));
}

} // namespace hekla::plugin
