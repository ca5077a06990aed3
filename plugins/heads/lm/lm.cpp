// A language model's head for bodies that have none of their own: logits by the body's embedding.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class Lm {
public:
    explicit Lm(const Config&) {}
    void build(Graph& g) { g.offer("logits", linear(g.ask("hidden"), g.ask("embedding.weight"))); }
};

// The likeliest next token of each row, as text.
int32_t decode(void*, const hk_output* outputs, uint32_t output_count, const hk_tokenizer* tokenizer,
               void (*push)(void*, hk_string), void* context, hk_error* error) {
    return guarded(error, [&] {
        for (uint32_t i = 0; i < output_count; ++i) {
            if (view(outputs[i].port) != "logits" || outputs[i].rank != 3) continue;
            const int64_t rows = outputs[i].dims[0], length = outputs[i].dims[1], size = outputs[i].dims[2];
            for (int64_t row = 0; row < rows; ++row) {
                const float* last = outputs[i].values + (row * length + length - 1) * size;
                int64_t best = 0;
                for (int64_t id = 1; id < size; ++id)
                    if (last[id] > last[best]) best = id;
                std::string token;
                if (tokenizer != nullptr) {
                    uint64_t bytes = 0;
                    host_interfaces().tokenizer->decode(tokenizer, &best, 1, nullptr, &bytes, nullptr);
                    token.resize(static_cast<std::size_t>(bytes));
                    host_interfaces().tokenizer->decode(tokenizer, &best, 1, token.data(), &bytes, nullptr);
                }
                std::string escaped;
                for (const char c : token) {
                    if (c == '"' || c == '\\') escaped += '\\';
                    if (static_cast<unsigned char>(c) < 0x20) {
                        constexpr const char* digits = "0123456789abcdef";
                        escaped += "\\u00";
                        escaped += digits[static_cast<unsigned char>(c) >> 4];
                        escaped += digits[static_cast<unsigned char>(c) & 15];
                    } else {
                        escaped += c;
                    }
                }
                push(context, text("{\"next_id\": " + std::to_string(best) + ", \"next\": \"" + escaped + "\"}"));
            }
        }
    });
}

const hk_head* table() {
    static const hk_head lm = [] {
        hk_head t = head_table<Lm>();
        t.decode = decode;
        return t;
    }();
    return &lm;
}

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "lm", table()})
