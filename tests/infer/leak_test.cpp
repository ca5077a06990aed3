// Information that must not reach a token: padding, later tokens under a causal mask, other rows of the batch. Every
// fixture model on the device, bit for bit: a weight of exactly 0 passes nothing on, and rows are computed in the same
// way at any place in the batch.
#include "support.hpp"

#include <set>

using namespace hekla;
using namespace hekla::test;

namespace {

// Returns tokens [B, T] (or choices [B, C, T]) with another id at one position.
Tensor changed(Tensor ids, int64_t row, int64_t place) {
    const int64_t length = ids.shape[-1], rows = ids.shape.elements() / length;
    REQUIRE(row < rows);
    double& id = ids.data[static_cast<std::size_t>(row * length + place)];
    id = id == 5.0 ? 6.0 : 5.0;
    return ids;
}

// Returns the hidden values of one token; `hidden`: [B, T, D].
std::span<const double> token(const Tensor& hidden, int64_t row, int64_t place) {
    const int64_t width = hidden.shape[-1], length = hidden.shape[-2];
    return {hidden.data.data() + (row * length + place) * width, static_cast<std::size_t>(width)};
}

bool same(std::span<const double> a, std::span<const double> b) { return std::ranges::equal(a, b); }

const std::set<std::string> kCausal{"gpt-clm",   "gpt-double-heads",   "gpt2-classifier", "gpt2-clm",
                                    "llama-clm", "parallel-block-clm", "qk-norm-clm"};
// Decoders see the whole source and their own past.
const std::set<std::string> kDecoders{"bart-denoising", "rnn-attention-additive", "rnn-attention-dot",
                                      "t5-span-corruption", "vaswani-seq2seq"};

TEST_CASE("a padding token changes nothing at real positions") {
    int tried = 0;
    for (const std::string& name : fixture_names()) {
        CAPTURE(name);
        infer::Model model = open_fixture(name, &device());
        Tensors fields = fixture_fields(name);
        if (!fields.contains("input_ids") || fields["input_ids"].shape.rank() != 2) continue;
        const Shape shape = fields["input_ids"].shape;
        fields["attention_mask"] = {Kind::int32, shape,
                                    std::vector<double>(static_cast<std::size_t>(shape.elements()), 1.0)};
        const Result<bool> reads = infer::reads_field(model, fields, "attention_mask");
        REQUIRE_MESSAGE(reads.ok(), reads.message());
        if (!reads.value()) continue;
        ++tried;
        const int64_t length = shape[1], real = length - 3; // row 0 ends in padding; row 1 is full
        for (int64_t t = real; t < length; ++t) fields["attention_mask"].data[static_cast<std::size_t>(t)] = 0.0;
        const Tensor before = run_port(model, fields, "hidden");
        Tensors other = fields;
        other["input_ids"] = changed(other["input_ids"], 0, length - 2);
        const Tensor after = run_port(model, other, "hidden");
        REQUIRE(before.shape == after.shape);
        const bool source = kDecoders.contains(name) || name.starts_with("xlnet"); // hidden has other positions
        for (int64_t t = 0; t < before.shape[1]; ++t)
            if (source || t < real) CHECK(same(token(before, 0, t), token(after, 0, t)));
        for (int64_t t = 0; t < before.shape[1]; ++t) CHECK(same(token(before, 1, t), token(after, 1, t)));
        // and a real token does have an effect, otherwise the test shows nothing
        other["input_ids"] = changed(fields["input_ids"], 0, 1);
        CHECK_FALSE(run_port(model, other, "hidden").data == before.data);
    }
    CHECK(tried >= 15);
}

TEST_CASE("a later token does not affect earlier ones") {
    for (const std::string& name : fixture_names()) {
        const bool decoder = kDecoders.contains(name);
        if (!decoder && !kCausal.contains(name)) continue;
        CAPTURE(name);
        infer::Model model = open_fixture(name, &device());
        const Tensors fields = fixture_fields(name);
        const char* field = decoder ? "decoder_input_ids" : "input_ids";
        const int64_t length = fields.at(field).shape[-1], place = length / 2;
        const Tensor before = run_port(model, fields, "hidden");
        Tensors other = fields;
        other[field] = changed(other[field], 0, place);
        const Tensor after = run_port(model, other, "hidden");
        for (int64_t t = 0; t < length; ++t) {
            CAPTURE(t);
            CHECK(same(token(before, 0, t), token(after, 0, t)) == (t < place));
        }
    }
}

TEST_CASE("the order of the batch does not matter") {
    for (const std::string& name : fixture_names()) {
        CAPTURE(name);
        infer::Model model = open_fixture(name, &device());
        const Tensors fields = fixture_fields(name);
        Tensors turned = fields;
        for (auto& [field, tensor] : turned) {
            const auto half = static_cast<std::ptrdiff_t>(tensor.data.size() / 2);
            REQUIRE(tensor.shape[0] == 2);
            std::rotate(tensor.data.begin(), tensor.data.begin() + half, tensor.data.end());
        }
        const Tensor before = run_port(model, fields, "hidden");
        Tensor after = run_port(model, turned, "hidden");
        const auto half = static_cast<std::ptrdiff_t>(after.data.size() / 2);
        std::rotate(after.data.begin(), after.data.begin() + half, after.data.end());
        CHECK(before.data == after.data);
    }
}

} // namespace
