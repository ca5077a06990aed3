// An objective for causal language modeling with one fault, selected by HEKLA_FAULT_*, which a host must survive.
#include "hekla_plugin.hpp"

#include <atomic>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>

#undef HEKLA_PLUGIN
#define HEKLA_PLUGIN(...)
#include "../../../plugins/objectives/clm/clm.cpp"

namespace {

#if defined(HEKLA_FAULT_NAN)
// A number read from the data multiplies the loss; from one example on (for four examples, or forever) it is NaN.
class Objective : public Clm {
public:
    using Clm::Clm;
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = Clm::fields(batch, length);
        all.push_back({"scale", HK_KIND_FLOAT32, {batch, 1}});
        return all;
    }
    void build(Graph& g) {
        const Value scale = g.input("scale");
        const Value logits = g.ask("logits");
        const LossSum loss = token_loss(logits * reshape(scale, {scale.dim(0), 1, 1}), g.input("next_ids"));
        g.loss("clm", loss.sum, loss.count);
    }
    void collate(const hk_batch& batch, hk_field* fields, uint32_t field_count) {
        Clm::collate(batch, fields, field_count);
        auto* scale = static_cast<float*>(fields[2].data);
        for (uint32_t row = 0; row < batch.example_count; ++row) {
            const bool evaluated = batch.examples[row].epoch == std::numeric_limits<uint64_t>::max();
            const uint64_t number = evaluated ? 0 : drawn_++;
            const bool bad = number >= 24 && number < HEKLA_FAULT_NAN;
            scale[row] = bad ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
        }
    }

private:
    std::atomic<uint64_t> drawn_ = 0; // a fault in itself: collate is not a pure function
};
#elif defined(HEKLA_FAULT_HANG)
// From some example of the steps on, collate never returns.
class Objective : public Clm {
public:
    using Clm::Clm;
    void collate(const hk_batch& batch, hk_field* fields, uint32_t field_count) {
        for (uint32_t row = 0; row < batch.example_count; ++row)
            if (batch.examples[row].epoch != std::numeric_limits<uint64_t>::max()) ++drawn_;
        while (drawn_ > HEKLA_FAULT_HANG) std::this_thread::sleep_for(std::chrono::seconds(1));
        Clm::collate(batch, fields, field_count);
    }

private:
    std::atomic<uint64_t> drawn_ = 0;
};
#elif defined(HEKLA_FAULT_TWO_LOSSES)
// No fault: two losses and a metric in training.
class Objective : public Clm {
public:
    using Clm::Clm;
    void build(Graph& g) {
        const Value logits = g.ask("logits");
        const Value labels = g.input("next_ids");
        const LossSum loss = token_loss(logits, labels);
        g.loss("next", loss.sum, loss.count);
        g.loss("size", sum_all(logits * logits), g.integer(logits.dim(0) * logits.dim(1)), 0.5);
        g.metric("hits", sum_all(equal(argmax(logits), labels)), g.integer(logits.dim(0) * logits.dim(1)));
    }
};
#else
using Objective = Clm;
#endif

const hk_objective* table() {
    static const hk_objective faulty = [] {
        hk_objective t = *objective<Objective>();
#if defined(HEKLA_FAULT_THROW_CREATE)
        t.create = [](const hk_config*, const hk_tokenizer*, void**, hk_error*) -> int32_t {
            throw std::runtime_error("create says no");
        };
#elif defined(HEKLA_FAULT_THROW_BUILD)
        t.build = [](void*, hk_builder*, hk_error*) -> int32_t { throw std::runtime_error("build says no"); };
#elif defined(HEKLA_FAULT_THROW_FIELDS)
        t.fields = [](void*, int64_t, int64_t, void (*)(void*, const hk_field*), void*, hk_error*) -> int32_t {
            throw 42;
        };
#elif defined(HEKLA_FAULT_THROW_COLLATE)
        t.collate = [](void*, const hk_batch*, hk_field*, uint32_t, hk_error*) -> int32_t {
            throw std::runtime_error("collate says no");
        };
#endif
        return t;
    }();
    return &faulty;
}

} // namespace

#if !defined(HEKLA_FAULT_NO_ENTRY)
extern "C" HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void);
extern "C" const hk_plugin_entry* hekla_plugin_entry(void) {
#if defined(HEKLA_FAULT_THROW_ENTRY)
    throw std::runtime_error("entry says no");
#endif
    static const hk_plugin_entry entry = {
        HK_ENTRY_MAGIC,
        static_cast<uint32_t>(sizeof(hk_plugin_entry)),
        HK_ABI_MAJOR,
#if defined(HEKLA_FAULT_NEWER)
        99,
        99,
#else
        HK_TARGET_ABI_MINOR,
        HK_ABI_MINOR,
#endif
        0,
        {nullptr, 0},
        [](const hk_host* host, hk_error* error) -> int32_t {
#if defined(HEKLA_FAULT_THROW_INIT)
            throw std::runtime_error("init says no");
#endif
            return hekla::plugin::initialize(host, error);
        },
        [] { hekla::plugin::host_interfaces().host = nullptr; },
        [](hk_string interface_id, hk_string id) -> const void* {
#if defined(HEKLA_FAULT_PROMISES)
            return nullptr;
#endif
            const bool ours = view(interface_id) == HK_OBJECTIVE_INTERFACE && view(id) == HEKLA_FAULT_ID;
            return ours ? table() : nullptr;
        },
    };
    return &entry;
}
#endif
