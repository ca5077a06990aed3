// Rotary position embeddings (Su et al. 2021), with the configuration keys of transformers.
#pragma once

#include "block.hpp"

#include <algorithm>
#include <tuple>

namespace hekla::plugin {

// What a class of the reference implementation has where its configuration does not say it.
struct RotaryDefaults {
    double theta = 10000.0;
    const char* theta_key = "rope_theta"; // outside of rope_parameters
    // The fraction of head_dim that is rotated; 0: this class rotates all of it.
    double partial_factor = 0.0;
    const char* partial_key = "partial_rotary_factor"; // outside of rope_parameters
};

// rope_parameters, or the older keys rope_theta, rope_scaling, rotary_pct, rotary_emb_base. Of the two objects
// rope_scaling is used where it has members, as in the reference; the host refuses members that were not read.
struct RotarySettings {
    double base = 10000.0;
    double partial_factor = 1.0; // the fraction of head_dim that is rotated
    bool partial = false;        // whether the class has it
    std::string type = "default";
    double factor = 1.0, low = 1.0, high = 4.0; // for linear and llama3
    int64_t original_positions = 0;

    static RotarySettings read(const Config& c, const RotaryDefaults& defaults = {}) {
        const auto has_members = [&](const std::string& object) {
            bool any = false;
            for (const char* key : {"rope_type", "type", "rope_theta", "factor"}) any |= c.has(object + key);
            return any;
        };
        const std::string object = has_members("rope_scaling.") ? "rope_scaling." : "rope_parameters.";
        RotarySettings r;
        r.base = c.real(object + "rope_theta", c.real(defaults.theta_key, defaults.theta));
        r.type = c.string(object + "type", "default");
        r.type = c.string(object + "rope_type", r.type.c_str());
        if (r.type != "default" && r.type != "linear" && r.type != "llama3")
            throw unsupported(object + "rope_type '" + r.type +
                              "' is not supported; expected default, linear or llama3");
        r.partial = defaults.partial_factor > 0.0;
        r.partial_factor = c.real(object + "partial_rotary_factor",
                                  r.partial ? c.real(defaults.partial_key, defaults.partial_factor) : 1.0);
        // Names of other classes, which some versions of the reference wrote in addition.
        for (const auto& [own, key, value] :
             {std::tuple(defaults.theta_key, "rope_theta", r.base),
              std::tuple(defaults.partial_key, "partial_rotary_factor", r.partial_factor)})
            if (own != std::string(key) && c.has(key) && c.real(key) != value)
                throw unsupported(std::string(key) + " = " + std::to_string(c.real(key)) + ", but " + own +
                                  " or its default is " + std::to_string(value) + ": remove the one that is wrong");
        if (!r.partial && r.partial_factor != 1.0)
            throw unsupported(object + "partial_rotary_factor = " + std::to_string(r.partial_factor) +
                              ", but this architecture rotates whole heads; expected 1");
        if (r.type == "default") return r;
        r.factor = c.real(object + "factor");
        if (r.type == "linear") return r;
        r.low = c.real(object + "low_freq_factor");
        r.high = c.real(object + "high_freq_factor");
        const double inside = c.real(object + kOriginal, static_cast<double>(c.integer("max_position_embeddings")));
        r.original_positions = static_cast<int64_t>(c.real(kOriginal, inside));
        return r;
    }

    void write(ConfigWriter& out) const {
        out.set("rope_parameters.rope_type", type);
        out.set("rope_parameters.rope_theta", base);
        if (partial) out.set("rope_parameters.partial_rotary_factor", partial_factor);
        if (type == "default") return;
        out.set("rope_parameters.factor", factor);
        if (type == "linear") return;
        out.set("rope_parameters.low_freq_factor", low);
        out.set("rope_parameters.high_freq_factor", high);
        out.set(std::string("rope_parameters.") + kOriginal, original_positions);
    }

private:
    static constexpr const char* kOriginal = "original_max_position_embeddings";
};

// Returns how many rows the tables need: all, unless the host knows how far positions count. Positions that a batch
// gives may be any, until it runs.
inline int64_t rotary_rows(Graph& g, int64_t length, int64_t max_positions) {
    if (g.has_field("position_ids")) return max_positions;
#if HK_TARGET_ABI_MINOR >= 2
    return std::min(g.position_count(length), max_positions);
#else
    return g.mode() == HK_MODE_DECODE ? max_positions : std::min(length, max_positions);
#endif
}

// The cosines and sines that the operation reads, [positions, R/2] each. Computed in float32 as in the reference, so
// that long positions round identically.
struct RotaryTables {
    Value cosine, sine;

    RotaryTables(Graph& g, const RotarySettings& r, int64_t head_dim, int64_t positions,
                 Location at = Location::here()) {
        const Caller caller(g, at);
        // An odd number of rotated features is rounded up, as in the reference; the angles use the number before
        // rounding.
        const auto rotated = static_cast<int64_t>(static_cast<double>(head_dim) * r.partial_factor);
        const int64_t half = (rotated + 1) / 2;
        if (2 * half > head_dim)
            throw unsupported("rotary positions rotate " + std::to_string(2 * half) + " features, but head_dim is " +
                              std::to_string(head_dim) + ": head_dim must be even");
        std::vector<double> c, s;
        c.reserve(static_cast<std::size_t>(positions * half));
        s.reserve(c.capacity());
        for (int64_t position = 0; position < positions; ++position)
            for (int64_t i = 0; i < half; ++i) {
                const float angle = static_cast<float>(position) * frequency(r, 2 * i, rotated);
                c.push_back(std::cos(angle));
                s.push_back(std::sin(angle));
            }
        cosine = g.constant(HK_KIND_FLOAT32, {positions, half}, c);
        sine = g.constant(HK_KIND_FLOAT32, {positions, half}, s);
    }

    // Rotates pairs of x [B, H, T, D] by the angles of `positions` [B, T].
    Value apply(Value x, Value positions, Location at = Location::here()) const {
        return rotary(x, cosine, sine, {.positions = positions}, at);
    }

private:
    static float frequency(const RotarySettings& r, int64_t i, int64_t rotated) {
        const float exponent = static_cast<float>(i) / static_cast<float>(rotated);
        const float f = 1.0f / std::pow(static_cast<float>(r.base), exponent);
        const auto factor = static_cast<float>(r.factor);
        if (r.type == "linear") return f / factor;
        if (r.type != "llama3") return f;
        // Llama 3.1: divides low frequencies by the factor, keeps high ones, and interpolates in between.
        const auto original = static_cast<double>(r.original_positions);
        const double wave = 6.283185307179586 / f;
        if (wave < original / r.high) return f;
        if (wave > original / r.low) return f / factor;
        const auto mix = static_cast<float>((original / wave - r.low) / (r.high - r.low));
        return (1.0f - mix) * f / factor + mix * f;
    }
};

} // namespace hekla::plugin
