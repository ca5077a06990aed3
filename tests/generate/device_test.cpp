// Programs on the device compute the same as the interpreter.
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"

#include "../program/harness.hpp"
#include "models.hpp"

#include <algorithm>

using namespace hekla;
using namespace hekla::generate;
using namespace hekla::test;

namespace {

std::unique_ptr<program::ParameterStore> store_of(program::Runtime& runtime, const graph::Graph& graph,
                                                  const Fields& weights) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph));
    REQUIRE_MESSAGE(store.ok(), store.message());
    for (const auto& [name, tensor] : weights) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        const Status status = store.value()->upload(name, values);
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    return store.take();
}

// Two decoders that run the same steps; the scores of all active rows are compared.
class Both final : public Decoder {
public:
    Both(Decoder& device, Decoder& reference) : device_(device), reference_(reference) {}
    Result<int64_t> longest(const DecodeBatch& session) const override { return device_.longest(session); }
    bool encoder_decoder() const override { return reference_.encoder_decoder(); }
    int64_t vocabulary() const override { return reference_.vocabulary(); }
    int64_t capacity() const override { return reference_.capacity(); }
    const std::vector<int64_t>& chunks() const override { return device_.chunks(); }
    Status begin(const DecodeBatch& session) override {
        HK_TRY(reference_.begin(session));
        HK_TRY(device_.begin(session));
        CHECK(device_.capacity() == reference_.capacity());
        CHECK(device_.vocabulary() == reference_.vocabulary());
        CHECK(device_.chunks() == reference_.chunks());
        return {};
    }
    Status decode(const Step& step, Logits& logits) override {
        Logits ours;
        HK_TRY(device_.decode(step, ours));
        HK_TRY(reference_.decode(step, logits));
        REQUIRE(ours.size() == logits.size());
        const auto vocabulary = static_cast<std::size_t>(reference_.vocabulary());
        for (std::size_t row = 0; row < step.count.size(); ++row) {
            if (step.count[row] == 0) continue;
            double difference = 0.0, size = 0.0;
            for (std::size_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) {
                const double d = std::abs(static_cast<double>(ours[i]) - logits[i]);
                if (!(d <= difference)) difference = d;
                size = std::max(size, std::abs(static_cast<double>(logits[i])));
            }
            CHECK(difference <= 1e-5 * size);
        }
        return {};
    }

private:
    Decoder& device_;
    Decoder& reference_;
};

} // namespace

TEST_CASE("decoder: programs on the device compute the same as the interpreter") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;
    for (const Model& model : models()) {
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        std::vector<plugin::BatchField> fields{{"input_ids", Kind::int32, Shape{1, 2}}};
        if (model.encodes) fields.push_back({"decoder_input_ids", Kind::int32, Shape{1, 2}});
        const auto described = composition->build(HK_MODE_EVALUATE, fields, kLogits);
        REQUIRE_MESSAGE(described.ok(), described.message());
        const Fields weights = random_weights(described.value(), 3);
        const auto store = store_of(*bench, described.value(), weights);
        auto reference = make_reference_decoder(*composition, weights);
        REQUIRE_MESSAGE(reference.ok(), reference.message());
        auto device = make_program_decoder(*bench, *store, *composition);
        REQUIRE_MESSAGE(device.ok(), device.message());
        Both both(*device.value(), *reference.value());
        Options o;
        o.max_new_tokens = 5;
        o.decoder_start = 1;
        Request request;
        for (const int length : {3, 20, 9}) request.prompts.push_back(some_ids(length, length));
        for (const auto& [beams, both_sides] : {std::pair(1, false), std::pair(3, false), std::pair(1, true)}) {
            o.beams = beams;
            request.both_sides = both_sides;
            const auto output = generate::generate(both, request, o);
            REQUIRE_MESSAGE(output.ok(), output.message());
            // A second time with compiled programs and used caches.
            const auto again = generate::generate(both, request, o);
            REQUIRE_MESSAGE(again.ok(), again.message());
            for (std::size_t row = 0; row < output->rows.size(); ++row)
                CHECK(again->rows[row].ids == output->rows[row].ids);
        }
    }
}
