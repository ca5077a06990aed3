#include "generate/virtual_token_decoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::generate {
namespace {

class VirtualTokenDecoder final : public Decoder {
public:
    VirtualTokenDecoder(std::unique_ptr<Decoder> inner, int64_t count) : inner_(std::move(inner)), count_(count) {}

    bool encoder_decoder() const override { return inner_->encoder_decoder(); }
    int64_t vocabulary() const override { return inner_->vocabulary(); }
    int64_t capacity() const override { return inner_->capacity(); }
    const std::vector<int64_t>& chunks() const override { return inner_->chunks(); }
    std::pmr::memory_resource* host_memory() const override { return inner_->host_memory(); }
    int64_t steps_at_once(const Options& options) const override { return inner_->steps_at_once(options); }
    Status prepare() override { return inner_->prepare(); }

    Result<int64_t> longest(const DecodeBatch& session) const override {
        HK_ASSIGN(const int64_t longest, inner_->longest(longer(session)));
        if (longest <= count_)
            return invalid_argument(fmt::format("the model supports rows of {} tokens, all of which the adapter's {} "
                                                "virtual tokens take",
                                                longest, count_));
        return longest - count_;
    }

    Status begin(const DecodeBatch& session) override {
        if (session.prompt_chunk > 0)
            return unsupported("bidirectional attention over prompts and virtual tokens cannot be combined");
        rows_ = session.rows;
        return inner_->begin(longer(session));
    }

    Status set_fields(const Fields& fields, std::span<const std::size_t> again) override {
        return inner_->set_fields(fields, again);
    }

    Status decode(const Step& step, Logits& logits) override {
        HK_ASSIGN(const Shifted shifted, feed(step, logits));
        return inner_->decode(shifted.step, logits);
    }

    Status decode_and_choose(const OwnSteps& steps, const Options& options, std::span<int32_t> chosen) override {
        Logits unused(inner_->host_memory());
        HK_ASSIGN(const Shifted shifted, feed(steps.first, unused));
        OwnSteps shifted_steps = steps;
        shifted_steps.first = shifted.step;
        return inner_->decode_and_choose(shifted_steps, options, chosen);
    }

private:
    // A step with positions after the virtual tokens.
    struct Shifted {
        std::vector<int32_t> start, cache_row;
        Step step;
    };

    DecodeBatch longer(const DecodeBatch& session) const {
        DecodeBatch batch = session;
        batch.length += count_;
        return batch;
    }

    // Feeds the virtual tokens of the rows that begin with this step. Returns the step after them.
    Result<Shifted> feed(const Step& step, Logits& logits) {
        const auto capacity = static_cast<std::size_t>(inner_->capacity()), rows = static_cast<std::size_t>(rows_);
        const auto count = static_cast<std::size_t>(count_);
        Shifted shifted;
        shifted.start.assign(step.start.begin(), step.start.end());
        for (int32_t& start : shifted.start) start += static_cast<int32_t>(count_);
        // A row's virtual tokens are in the cache of the row that holds its first token.
        shifted.cache_row.assign(step.cache_row.begin(), step.cache_row.end());
        for (std::size_t row = 0; row < rows && !step.cache_row.empty(); ++row) {
            const auto of = shifted.cache_row.begin() + static_cast<std::ptrdiff_t>(row * capacity);
            const int32_t first = *of;
            std::copy_backward(of, of + static_cast<std::ptrdiff_t>(capacity - count),
                               of + static_cast<std::ptrdiff_t>(capacity));
            std::fill_n(of, count, first);
        }
        shifted.step = step;
        shifted.step.start = shifted.start;
        shifted.step.cache_row = shifted.cache_row;
        if (shifted.step.kind == StepKind::first) shifted.step.kind = StepKind::any;
        const auto begins = [&](std::size_t row) { return step.count[row] > 0 && step.start[row] == 0; };
        bool some_begin = false;
        for (std::size_t row = 0; row < rows; ++row) some_begin = some_begin || begins(row);
        if (!some_begin) return shifted;
        for (int64_t done = 0; done < count_;) {
            const int64_t left = count_ - done;
            const auto fits = std::ranges::find_if(chunks(), [&](int64_t size) { return size >= left; });
            const int64_t chunk = fits == chunks().end() ? chunks().back() : *fits;
            const std::vector<int32_t> tokens(rows * static_cast<std::size_t>(chunk), 0),
                start(rows, static_cast<int32_t>(done));
            std::vector<int32_t> taken(rows, 0);
            for (std::size_t row = 0; row < rows; ++row)
                if (begins(row)) taken[row] = static_cast<int32_t>(std::min(chunk, left));
            Step virtual_step;
            virtual_step.chunk = chunk;
            virtual_step.tokens = tokens;
            virtual_step.start = start;
            virtual_step.count = taken;
            virtual_step.cache_row = shifted.cache_row;
            HK_TRY(inner_->decode(virtual_step, logits));
            done += std::min(chunk, left);
        }
        return shifted;
    }

    std::unique_ptr<Decoder> inner_;
    int64_t count_;
    int64_t rows_ = 0;
};

} // namespace

std::unique_ptr<Decoder> with_virtual_tokens(std::unique_ptr<Decoder> inner, int64_t count) {
    if (count == 0) return inner;
    return std::make_unique<VirtualTokenDecoder>(std::move(inner), count);
}

} // namespace hekla::generate
