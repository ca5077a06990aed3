// Rotary position embeddings (Su et al. 2021), with the configuration keys of transformers.
#pragma once

#include "block.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace hekla::plugin {

// What a class of the reference implementation has where its configuration does not say it.
struct RotaryDefaults {
    double theta = 10000.0;
    const char* theta_key = "rope_theta"; // outside of rope_parameters
    // The fraction of head_dim that is rotated; 0: this class rotates all of it.
    double partial_factor = 0.0;
    const char* partial_key = "partial_rotary_factor"; // outside of rope_parameters
    // The member of rope_parameters with the settings of one layer type, where the class has settings by layer type.
    const char* layer_type = nullptr;
    bool scaling = true;        // whether rope_scaling is about this layer type
    bool longrope_only = false; // Phi-3: any type but the default means longrope, also under its older names
    bool query_scaling = false; // Ministral 3: queries grow with the logarithm of their position
    bool proportional = false;  // Gemma 4: the type proportional is known
};

// rope_parameters, or the older keys rope_theta, rope_scaling, rotary_pct, rotary_emb_base. Of the two objects
// rope_scaling is used where it has members, as in the reference; the host refuses members that were not read.
struct RotarySettings {
    double base = 10000.0;
    double partial_factor = 1.0; // the fraction of head_dim that is rotated
    bool partial = false;        // whether the class has it
    std::string type = "default";
    double factor = 1.0, low = 1.0, high = 4.0; // of all types but the default; of llama3
    int64_t original_positions = 0;             // of llama3, yarn, longrope and query_scaling
    int64_t max_positions = 0;
    double beta_fast = 32.0, beta_slow = 1.0; // of yarn
    bool truncate = true;
    std::optional<double> attention_factor, mscale, mscale_all_dim; // of yarn; the first also of longrope
    std::vector<double> short_factor, long_factor;                  // of longrope
    std::optional<double> query_scaling;                            // llama_4_scaling_beta
    std::string layer_type{};                                       // as in RotaryDefaults
    bool from_scaling = false;                                      // rope_scaling was read
    bool proportional = false; // the whole head is rotated, but all pairs after the first partial_factor by nothing

    static RotarySettings read(const Config& c, const RotaryDefaults& defaults = {}) {
        const auto has_members = [&](const std::string& object) {
            bool any = false;
            for (const char* key : {"rope_type", "type", "rope_theta", "factor"}) any |= c.has(object + key);
            return any;
        };
        RotarySettings r;
        r.from_scaling = defaults.scaling && has_members("rope_scaling.");
        r.layer_type = defaults.layer_type != nullptr ? defaults.layer_type : "";
        const std::string parameters = "rope_parameters." + (r.layer_type.empty() ? "" : r.layer_type + ".");
        const std::string object = r.from_scaling ? "rope_scaling." : parameters;
        r.base = c.real(defaults.theta_key, defaults.theta);
        if (!r.layer_type.empty()) r.base = c.real(parameters + "rope_theta", r.base);
        r.base = c.real(object + "rope_theta", r.base);
        r.type = c.string(object + "type", "default");
        r.type = c.string(object + "rope_type", r.type.c_str());
        if (defaults.longrope_only && (r.type == "su" || r.type == "yarn")) r.type = "longrope";
        r.proportional = defaults.proportional && r.type == "proportional";
        const bool known = r.proportional ? true
                           : defaults.longrope_only
                               ? r.type == "default" || r.type == "longrope"
                               : r.type == "default" || r.type == "linear" || r.type == "dynamic" || r.type == "yarn" ||
                                     r.type == "longrope" || r.type == "llama3";
        if (!known)
            throw unsupported(
                object + "rope_type '" + r.type + "' is not supported; expected default" +
                (defaults.longrope_only ? " or longrope" : ", linear, dynamic, yarn, longrope or llama3"));
        r.read_partial(c, object, defaults);
        r.max_positions = c.integer("max_position_embeddings");
        const bool has_original = r.type == "llama3" || r.type == "yarn" || r.type == "longrope";
        if (has_original || defaults.query_scaling) {
            const double inside = has_original ? c.real(object + kOriginal, static_cast<double>(r.max_positions))
                                               : c.real(object + kOriginal);
            const double used = r.layer_type.empty() && has_original ? c.real(kOriginal, inside) : inside;
            require(used >= 1.0, object + kOriginal + " must be 1 or more");
            r.original_positions = static_cast<int64_t>(used);
        }
        if (defaults.query_scaling) {
            r.query_scaling = c.real(object + "llama_4_scaling_beta");
            c.has(object + "max_position_embeddings"); // the reference writes it and does not read it
        }
        if (r.type == "default") return r;
        r.read_scaling(c, object);
        return r;
    }

    // The factor of cosines and sines.
    double magnitude() const {
        const auto grown = [&](double by) { return factor > 1.0 ? 0.1 * by * std::log(factor) + 1.0 : 1.0; };
        if (attention_factor) return *attention_factor;
        if (type == "yarn") {
            const bool both = mscale.value_or(0.0) != 0.0 && mscale_all_dim.value_or(0.0) != 0.0;
            return both ? grown(*mscale) / grown(*mscale_all_dim) : grown(1.0);
        }
        if (type != "longrope" || factor <= 1.0) return 1.0;
        return std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(original_positions)));
    }

    // The number of rotated features of a head.
    int64_t rotated(int64_t head_dim) const {
        return proportional ? head_dim : static_cast<int64_t>(static_cast<double>(head_dim) * partial_factor);
    }

    // Returns the angles per position of the rotated pairs of a head in rows of this many tokens, on which those of
    // dynamic and longrope depend. In float32 as in the reference, so that long positions round identically.
    std::vector<float> frequencies(int64_t head_dim, int64_t tokens) const {
        const int64_t width = rotated(head_dim), half = (width + 1) / 2;
        const auto factor_of = static_cast<float>(factor);
        double theta = base;
        if (type == "dynamic" && tokens > max_positions) {
            const auto d = static_cast<double>(width);
            const double share = static_cast<double>(tokens) / static_cast<double>(max_positions);
            theta *= std::pow(factor * share - (factor - 1.0), d / (d - 2.0));
        }
        std::vector<float> all;
        for (int64_t i = 0; i < half; ++i) {
            const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
            const float power = std::pow(static_cast<float>(theta), exponent);
            const float f = 1.0f / power;
            if (proportional) {
                const auto pairs = static_cast<int64_t>(partial_factor * static_cast<double>(width) / 2.0);
                all.push_back(i < pairs ? f / factor_of : 0.0f);
            } else if (type == "linear") {
                all.push_back(f / factor_of);
            } else if (type == "llama3") {
                all.push_back(llama3(f));
            } else if (type == "yarn") {
                const float kept = 1.0f - yarn_ramp(i, width);
                all.push_back(1.0f / (factor_of * power) * (1.0f - kept) + f * kept);
            } else if (type == "longrope") {
                const auto& by = tokens > original_positions ? long_factor : short_factor;
                all.push_back(1.0f / (static_cast<float>(by[static_cast<std::size_t>(i)]) * power));
            } else {
                all.push_back(f);
            }
        }
        return all;
    }

    // Refuses settings that do not fit a head.
    void check(int64_t head_dim) const {
        const int64_t width = rotated(head_dim), half = (width + 1) / 2;
        if (width < 1 || width > head_dim)
            throw unsupported("partial_rotary_factor = " + std::to_string(partial_factor) + " rotates " +
                              std::to_string(width) + " features of a head of " + std::to_string(head_dim) +
                              "; expected 1 or more, and not more than there are");
        if (2 * half > head_dim)
            throw unsupported("rotary positions rotate " + std::to_string(2 * half) + " features, but head_dim is " +
                              std::to_string(head_dim) + ": head_dim must be even");
        if (type == "dynamic" && width <= 2)
            throw unsupported("rope_type dynamic needs more than 2 rotated features, head_dim is " +
                              std::to_string(head_dim));
        if (type != "longrope") return;
        for (const auto& [key, list] :
             {std::pair("short_factor", &short_factor), std::pair("long_factor", &long_factor)})
            require(list->size() == static_cast<std::size_t>(half),
                    std::string(key) + " has " + std::to_string(list->size()) + " elements, expected " +
                        std::to_string(half) + ", one for each pair of rotated features");
    }

    void write(ConfigWriter& out) const {
        const std::string object = "rope_parameters." + (layer_type.empty() ? "" : layer_type + ".");
        const auto given = [&](const char* key, const std::optional<double>& value) {
            if (value) out.set(object + key, *value);
        };
        if (from_scaling) out.set_null("rope_scaling"); // where it stays in the file, rope_parameters is not read
        out.set(object + "rope_type", type);
        out.set(object + "rope_theta", base);
        if (partial) out.set(object + "partial_rotary_factor", partial_factor);
        if (type != "default" && (!proportional || factor != 1.0)) out.set(object + "factor", factor);
        if (type == "llama3") {
            out.set(object + "low_freq_factor", low);
            out.set(object + "high_freq_factor", high);
        }
        if (original_positions > 0) out.set(object + kOriginal, original_positions);
        given("llama_4_scaling_beta", query_scaling);
        given("attention_factor", attention_factor);
        if (type == "longrope") {
            out.set(object + "short_factor", short_factor);
            out.set(object + "long_factor", long_factor);
        }
        if (type != "yarn") return;
        out.set(object + "beta_fast", beta_fast);
        out.set(object + "beta_slow", beta_slow);
        if (!truncate) out.set(object + "truncate", truncate);
        given("mscale", mscale);
        given("mscale_all_dim", mscale_all_dim);
    }

private:
    static constexpr const char* kOriginal = "original_max_position_embeddings";

    void read_partial(const Config& c, const std::string& object, const RotaryDefaults& defaults) {
        partial = defaults.partial_factor > 0.0;
        partial_factor = c.real(object + "partial_rotary_factor",
                                partial ? c.real(defaults.partial_key, defaults.partial_factor) : 1.0);
        // Names of other classes, which some versions of the reference wrote in addition.
        for (const auto& [own, key, value] :
             {std::tuple(defaults.theta_key, "rope_theta", base),
              std::tuple(defaults.partial_key, "partial_rotary_factor", partial_factor)})
            if (layer_type.empty() && own != std::string(key) && c.has(key) && c.real(key) != value)
                throw unsupported(std::string(key) + " = " + std::to_string(c.real(key)) + ", but " + own +
                                  " or its default is " + std::to_string(value) + ": remove the one that is wrong");
        if (!partial && partial_factor != 1.0)
            throw unsupported(object + "partial_rotary_factor = " + std::to_string(partial_factor) +
                              ", but this architecture rotates whole heads; expected 1");
    }

    void read_scaling(const Config& c, const std::string& object) {
        const double whole =
            static_cast<double>(max_positions) / static_cast<double>(std::max<int64_t>(original_positions, 1));
        const bool optional = type == "yarn" || type == "longrope"; // missing: how far the context was extended
        factor = optional       ? c.real(object + "factor", whole)
                 : proportional ? c.real(object + "factor", 1.0)
                                : c.real(object + "factor");
        require(factor > 0.0, object + "factor must be above 0");
        if (type == "llama3") {
            low = c.real(object + "low_freq_factor");
            high = c.real(object + "high_freq_factor");
        }
        const auto given = [&](const char* key, std::optional<double>& value) {
            if (c.has(object + key)) value = c.real(object + key);
        };
        if (optional) given("attention_factor", attention_factor);
        if (type == "longrope") {
            short_factor = numbers(c, object + "short_factor");
            long_factor = numbers(c, object + "long_factor");
        }
        if (type != "yarn") return;
        const auto usual = [&](const char* key, double otherwise) {
            const double value = c.real(object + key, otherwise);
            return value != 0.0 ? value : otherwise; // as the reference's "or"
        };
        beta_fast = usual("beta_fast", 32.0);
        beta_slow = usual("beta_slow", 1.0);
        truncate = c.boolean(object + "truncate", true);
        given("mscale", mscale);
        given("mscale_all_dim", mscale_all_dim);
    }

    static std::vector<double> numbers(const Config& c, const std::string& key) {
        std::vector<double> all(static_cast<std::size_t>(c.count(key)));
        for (std::size_t i = 0; i < all.size(); ++i) {
            all[i] = c.real(key + "." + std::to_string(i));
            require(all[i] > 0.0, key + "." + std::to_string(i) + " must be above 0");
        }
        return all;
    }

    // Llama 3.1: divides low frequencies by the factor, keeps high ones, and interpolates in between.
    float llama3(float f) const {
        const auto by = static_cast<float>(factor);
        const auto original = static_cast<double>(original_positions);
        const double wave = 6.283185307179586 / f;
        if (wave < original / high) return f;
        if (wave > original / low) return f / by;
        const auto mix = static_cast<float>((original / wave - low) / (high - low));
        return (1.0f - mix) * f / by + mix * f;
    }

    // YaRN (Peng et al. 2023): how far pair i is interpolated, from 0 for high frequencies to 1 for low ones.
    float yarn_ramp(int64_t i, int64_t width) const {
        const auto pair_of = [&](double rotations) {
            const double wave = static_cast<double>(original_positions) / (rotations * 6.283185307179586);
            return static_cast<double>(width) * std::log(wave) / (2.0 * std::log(base));
        };
        double first = pair_of(beta_fast), last = pair_of(beta_slow);
        if (truncate) {
            first = std::floor(first);
            last = std::ceil(last);
        }
        first = std::max(first, 0.0);
        last = std::min(last, static_cast<double>(width - 1));
        if (first == last) last += 0.001;
        const float at = (static_cast<float>(i) - static_cast<float>(first)) / static_cast<float>(last - first);
        return std::clamp(at, 0.0f, 1.0f);
    }
};

// How many rows the tables need, and the tokens of a batch's rows: in decode mode of what the cache holds, so that
// dynamic and longrope have the same frequencies from the first token of a generation to the last.
struct RotaryRows {
    int64_t positions = 0, tokens = 0;

    RotaryRows(int64_t positions_, int64_t tokens_) : positions(positions_), tokens(tokens_) {}
    RotaryRows(int64_t positions_) : RotaryRows(positions_, positions_) {}
};

// Returns the rows of a batch whose rows have this length: all, unless the host knows how far positions count.
// Positions that a batch gives may be any, until it runs; those of segments are below the length.
inline RotaryRows rotary_rows(Graph& g, int64_t length, int64_t max_positions) {
#if HK_TARGET_ABI_MINOR >= 2
    const int64_t counted = std::min(g.position_count(length), max_positions);
#else
    const int64_t counted = g.mode() == HK_MODE_DECODE ? max_positions : std::min(length, max_positions);
#endif
    const bool any = g.has_field("position_ids") && !g.has_field("segment_ids");
    return {any ? max_positions : counted, counted};
}

// Returns the longest row in tokens. Rows may be longer than max_position_embeddings with the type dynamic alone, which
// is for that.
inline int64_t rotary_limit(Graph& g, const RotarySettings& r, int64_t length) {
    if (r.type != "dynamic") return r.max_positions;
    if (g.has_field("segment_ids"))
        g.fail("rope_type dynamic computes angles from the length of a row, and a row of several examples "
               "(data.packing) has not that of one: set data.packing = \"none\"");
#if HK_TARGET_ABI_MINOR >= 2
    const int64_t counted = g.position_count(length);
    return std::max(counted == INT64_MAX ? length : counted, r.max_positions);
#else
    return std::max(length, r.max_positions);
#endif
}

// The cosines and sines that the operation reads, [positions, R/2] each.
struct RotaryTables {
    Value cosine, sine;

    RotaryTables(Graph& g, const RotarySettings& r, int64_t head_dim, const RotaryRows& rows,
                 Location at = Location::here()) {
        const Caller caller(g, at);
        r.check(head_dim);
        const std::vector<float> frequencies = r.frequencies(head_dim, rows.tokens);
        const auto half = static_cast<int64_t>(frequencies.size());
        const auto magnitude = static_cast<float>(r.magnitude());
        std::vector<double> c, s;
        c.reserve(static_cast<std::size_t>(rows.positions * half));
        s.reserve(c.capacity());
        for (int64_t position = 0; position < rows.positions; ++position)
            for (const float frequency : frequencies) {
                const float angle = static_cast<float>(position) * frequency;
                c.push_back(std::cos(angle) * magnitude);
                s.push_back(std::sin(angle) * magnitude);
            }
        cosine = g.constant(HK_KIND_FLOAT32, {rows.positions, half}, c);
        sine = g.constant(HK_KIND_FLOAT32, {rows.positions, half}, s);
    }

    // Rotates pairs of x [B, H, T, D] by the angles of `positions` [B, T]: (i, i + R/2), or (2i, 2i + 1) if
    // interleaved.
    Value apply(Value x, Value positions, bool interleaved = false, Location at = Location::here()) const {
        return rotary(x, cosine, sine, {.positions = positions, .interleaved = interleaved ? 1 : 0}, at);
    }
};

} // namespace hekla::plugin
