// Shared by heads' decode functions: outputs and fields by name, probabilities, JSON.
#pragma once

#include "collate.hpp"

#include <charconv>
#include <cmath>

namespace hekla::plugin {

class DecodeInput {
public:
    explicit DecodeInput(const hk_decode_input& raw) : raw_(raw), tokens_(raw.tokenizer) {}
    std::size_t rows() const { return raw_.row_count; }
    const Tokens& tokens() const { return tokens_; }
    const hk_output& output(std::string_view port) const {
        for (uint32_t i = 0; i < raw_.output_count; ++i)
            if (const hk_output& output = element(raw_.outputs, i); view(output.port) == port) return output;
        throw invalid("there is no output '" + std::string(port) + "' to read");
    }
    // Returns the values of one row of an output.
    std::span<const float> row(const hk_output& output, std::size_t row) const {
        std::size_t width = 1;
        for (uint32_t i = 1; i < output.rank; ++i) width *= static_cast<std::size_t>(output.dims[i]);
        return {output.values + row * width, width};
    }
    bool has_field(std::string_view name) const { return FieldSet(fields(), raw_.field_count).find(name) != nullptr; }
    FieldRows<int32_t> ints(std::string_view name) const { return FieldSet(fields(), raw_.field_count).ints(name); }

private:
    hk_field* fields() const { return const_cast<hk_field*>(raw_.fields); } // read only here
    const hk_decode_input& raw_;
    Tokens tokens_;
};

inline std::size_t best_of(std::span<const float> scores) {
    return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

inline std::vector<double> softmax_of(std::span<const float> scores) {
    std::vector<double> result;
    const double most = static_cast<double>(*std::max_element(scores.begin(), scores.end()));
    double sum = 0.0;
    for (const float score : scores) sum += result.emplace_back(std::exp(static_cast<double>(score) - most));
    for (double& p : result) p /= sum;
    return result;
}

inline std::string json_text(std::string_view s) {
    std::string out = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            constexpr const char* kDigits = "0123456789abcdef";
            out += "\\u00";
            out += kDigits[static_cast<unsigned char>(c) >> 4];
            out += kDigits[static_cast<unsigned char>(c) & 15];
        } else {
            out += c;
        }
    }
    return out + "\"";
}
inline std::string json_number(double x) {
    if (!std::isfinite(x)) return "null";
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::general, 9).ptr};
}
template<class Range>
std::string json_numbers(const Range& values) {
    std::string out = "[";
    for (const auto& value : values) out += (out.size() > 1 ? ", " : "") + json_number(static_cast<double>(value));
    return out + "]";
}

// A head with decode: T has, in addition to T(const Config&) and build(Graph&), static std::vector<const char*> ports()
// and std::string decode(const DecodeInput&, std::size_t row): the JSON of one row.
template<class T>
const hk_head* decoding_head() {
    static const hk_head kTable = [] {
        hk_head t = head_table<T>();
        t.decode_ports = [](void*, void (*push)(void*, hk_string), void* context, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                for (const char* port : T::ports()) push(context, text(port));
            });
        };
        t.decode = [](void* self, const hk_decode_input* input, void (*push)(void*, hk_string), void* context,
                      hk_error* error) -> int32_t {
            return guarded(error, [&] {
                const DecodeInput in(*input);
                for (std::size_t row = 0; row < in.rows(); ++row) {
                    const std::string json = static_cast<T*>(self)->decode(in, row);
                    push(context, text(json));
                }
            });
        };
        return t;
    }();
    return &kTable;
}

} // namespace hekla::plugin
