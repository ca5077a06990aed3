#include "api/forward_session.hpp"
#include "api/call_environment.hpp"

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/forward.hpp"
#include "program/parameter_store.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>

namespace hekla::api {

struct ForwardSession::Loaded {
    infer::Model model;
    infer::Tensors fields;
    std::unique_ptr<infer::Forward> forward;
    std::vector<std::string> names; // of fields and outputs
};
namespace {

// Borrows the host's buffer for a tensor of that size; invalid_argument contains the reason.
Result<gpu::Buffer> borrow(const gpu::Device& device, const std::string& name, const hk_buffer& b, uint64_t bytes) {
    const auto refuse = [&](const std::string& why) {
        return invalid_argument(fmt::format("the buffer of '{}' {}", name, why));
    };
    if ((b.usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) == 0)
        return refuse("lacks VK_BUFFER_USAGE_STORAGE_BUFFER_BIT in VkBufferCreateInfo::usage");
    if ((b.usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) == 0)
        return refuse("lacks VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT in VkBufferCreateInfo::usage");
    if (b.memory_has_address == 0)
        return refuse("is on memory without VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT in VkMemoryAllocateFlagsInfo::flags");
    if (b.concurrent == 0 && b.queue_family != device.queue_family())
        return refuse(fmt::format("belongs to the queue family {}, and Hekla's queue to {}: share the buffer "
                                  "(hk_buffer.concurrent), or transfer it before each pass and set queue_family to {}",
                                  b.queue_family, device.queue_family(), device.queue_family()));
    if (b.bytes < bytes) return refuse(fmt::format("has {} bytes, expected {}", b.bytes, bytes));
    VkBuffer handle = VK_NULL_HANDLE;
    static_assert(sizeof handle == sizeof b.buffer);
    std::memcpy(&handle, &b.buffer, sizeof handle);
    uint64_t address = b.address;
    if (address == 0) {
        VkBufferDeviceAddressInfo ask{};
        ask.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
        ask.buffer = handle;
        address = device.functions().vkGetBufferDeviceAddress(device.handle(), &ask);
    }
    if ((address + b.offset) % 256 != 0)
        return refuse(fmt::format("begins at the address {:#x}, expected a multiple of 256", address + b.offset));
    return gpu::Buffer::borrow(handle, address + b.offset, bytes, name);
}

graph::Tensor ones(int64_t rows, int64_t length) {
    return {graph::Kind::int32, graph::Shape{rows, length},
            std::vector<double>(static_cast<std::size_t>(rows * length), 1.0)};
}

std::vector<std::pair<std::string, hk_buffer>> bindings_of(const hk_forward_options& o) {
    std::vector<std::pair<std::string, hk_buffer>> bindings;
    for (uint64_t i = 0; i < o.binding_count; ++i)
        bindings.emplace_back(string_of(o.bindings[i].name), o.bindings[i].buffer);
    return bindings;
}

} // namespace

ForwardSession::ForwardSession(const hk_forward_options& o)
    : model_(string_of(o.model)), ports_(texts(o.ports, o.port_count)), bindings_(bindings_of(o)),
      attention_(o.attention != 0), lens_(o.lens != 0), rows_(o.rows), row_length_(o.length),
      decoder_length_(o.decoder_length) {
    hk_session_callbacks host{};
    host.user = o.user;
    host.done = o.done;
    callbacks_.replace(host);
}

Result<std::shared_ptr<Session>> ForwardSession::create(const std::shared_ptr<Context>& context,
                                                        const hk_forward_options& options,
                                                        const hk_session_options* own) {
    const auto session = make<ForwardSession>(options);
    HK_TRY(session->start(context, own));
    return std::shared_ptr<Session>(session);
}

const hk_buffer* ForwardSession::bound(std::string_view name) const {
    const auto found = std::ranges::find(bindings_, name, &std::pair<std::string, hk_buffer>::first);
    return found != bindings_.end() ? &found->second : nullptr;
}

Status ForwardSession::work() {
    Loaded loaded;
    HK_TRY(load(loaded));
    // Measure passes over zeros: if the host's buffers hold the ids, their content is not known yet.
    HK_TRY(write_zeros(loaded));
    if (std::ranges::none_of(loaded.fields, [&](const auto& field) { return bound(field.first) != nullptr; }))
        HK_TRY(calibrate([&] { return loaded.forward->run(); }));
    else
        HK_TRY(runtime_->gpu().staging->reserve());
    const PublishedStore published(*this, *loaded.model.store);
    publish_scalars(loaded.forward->step_scalars());
    HK_TRY(enter_metered_mode(Phase::idle));
    for (;;) {
        HK_ASSIGN(const bool goes_on, wait_for_work([&] { return wanted_; }));
        if (!goes_on) return {};
        HK_TRY(run_pass(loaded));
    }
}

Status ForwardSession::make_fields(Loaded& loaded) {
    infer::Tensors& fields = loaded.fields;
    fields = {{"input_ids", ones(rows_, row_length_)}, {"attention_mask", ones(rows_, row_length_)}};
    HK_ASSIGN(reads_mask_, infer::reads_field(loaded.model, fields, "attention_mask"));
    if (!reads_mask_) fields.erase("attention_mask");
    if (decoder_length_ == 0) return {};
    fields["decoder_input_ids"] = ones(rows_, decoder_length_);
    HK_ASSIGN(const bool decodes, infer::reads_field(loaded.model, fields, "decoder_input_ids"));
    if (decodes) return {};
    return invalid_argument(fmt::format("hk_forward_options.decoder_length is {}, expected 0: only encoder-decoder "
                                        "models accept it, and this model has one stack",
                                        decoder_length_));
}

Status ForwardSession::load(Loaded& loaded) {
    const CallEnvironment environment = this->environment();
    HK_ASSIGN(loaded.model, infer::open_model(environment.registry, environment.device, model_,
                                              {.tokenizer_required = false,
                                               .pool = environment.weights,
                                               .may_wait = environment.own_threads,
                                               .stop = environment.stop},
                                              environment.log));
    set_progress(0.5);
    HK_TRY(make_fields(loaded));
    std::vector<std::string> unused;
    for (const auto& [name, buffer] : bindings_) unused.push_back(name);
    const auto give = [&](const std::string& name, uint64_t bytes) -> Result<gpu::Buffer> {
        const hk_buffer* given = bound(name);
        if (given == nullptr) return gpu::Buffer();
        std::erase(unused, name);
        return borrow(*runtime_->gpu().device, name, *given, bytes);
    };
    HK_ASSIGN(loaded.forward,
              infer::Forward::create_on_device(loaded.model, loaded.fields, ports_, attention_, lens_, give));
    loaded.names = loaded.forward->output_names();
    for (const auto& [name, field] : loaded.fields) loaded.names.push_back(name);
    if (!unused.empty())
        return invalid_argument(fmt::format("there is no field or port '{}' to bind a buffer to; there are: {}",
                                            unused.front(), fmt::join(loaded.names, ", ")));
    const std::lock_guard guard(mutex_);
    id_range_ = loaded.forward->id_range("input_ids");
    decoder_id_range_ = loaded.forward->id_range("decoder_input_ids");
    loaded_ = &loaded;
    find_tensors();
    return {};
}

void ForwardSession::find_tensors() {
    tensors_.clear();
    for (const std::string& name : loaded_->names) {
        const graph::Value* value = loaded_->forward->find(name);
        const gpu::Buffer* buffer = loaded_->model.store->state_buffer(infer::forward_state(name));
        if (value != nullptr && buffer != nullptr) tensors_.emplace(name, describe_tensor(name, *value, *buffer));
    }
}

hk_tensor ForwardSession::describe_tensor(const std::string& name, const graph::Value& value,
                                          const gpu::Buffer& buffer) const {
    hk_tensor t{};
    t.struct_size = sizeof t;
    t.kind = value.kind == graph::Kind::int32 ? HK_TENSOR_INT32 : HK_TENSOR_FLOAT32;
    t.rank = static_cast<uint32_t>(value.shape.rank());
    std::ranges::copy(value.shape.dims(), t.dims);
    for (const graph::AttentionMap& map : loaded_->forward->attention_maps())
        if (map.output == name) t.decoder_axes = (map.queries_written ? 4U : 0U) | (map.keys_written ? 8U : 0U);
    if (const hk_buffer* given = bound(name)) {
        t.buffer = *given;
    } else {
        const VkBuffer handle = buffer.handle();
        std::memcpy(&t.buffer.buffer, &handle, sizeof t.buffer.buffer);
        t.buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                         VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
        t.buffer.queue_family = runtime_->gpu().device->queue_family();
        t.buffer.memory_has_address = 1;
    }
    t.buffer.struct_size = sizeof t.buffer;
    t.buffer.address = buffer.address() - t.buffer.offset;
    t.buffer.bytes = buffer.bytes();
    return t;
}

Status ForwardSession::write(const Loaded& loaded, const std::string& field, std::span<const int32_t> values) const {
    return loaded.model.store->upload_state(infer::forward_state(field), std::as_bytes(values));
}

Status ForwardSession::write_zeros(const Loaded& loaded) const {
    const std::vector<int32_t> zeros(static_cast<std::size_t>(rows_ * std::max(row_length_, decoder_length_)), 0);
    const auto first = [&](int64_t length) { return std::span(zeros).first(static_cast<std::size_t>(rows_ * length)); };
    if (bound("input_ids") == nullptr) HK_TRY(write(loaded, "input_ids", first(row_length_)));
    if (decoder_length_ > 0 && bound("decoder_input_ids") == nullptr)
        HK_TRY(write(loaded, "decoder_input_ids", first(decoder_length_)));
    return {};
}

Status ForwardSession::run_pass(const Loaded& loaded) {
    Ids ids;
    {
        const std::lock_guard guard(mutex_);
        ids = std::exchange(ids_, {});
    }
    if (!ids.encoder.empty()) HK_TRY(write(loaded, "input_ids", ids.encoder));
    if (!ids.mask.empty()) HK_TRY(write(loaded, "attention_mask", ids.mask));
    if (!ids.decoder.empty()) HK_TRY(write(loaded, "decoder_input_ids", ids.decoder));
    for (const auto& [name, value] : scalars()) HK_TRY(loaded.forward->set_scalar(name, value));
    HK_TRY(loaded.forward->run());
    ++step_;
    {
        const std::lock_guard guard(mutex_);
        wanted_ = false;
        set_phase(Phase::idle);
    }
    tell<&hk_session_callbacks::done>(static_cast<uint64_t>(step_.load()));
    return {};
}

Session::PassShape ForwardSession::pass_shape() const {
    return {static_cast<std::size_t>(rows_), static_cast<std::size_t>(row_length_),
            static_cast<std::size_t>(decoder_length_)};
}

Status ForwardSession::pass(const int32_t* ids, const uint64_t* lengths, const int32_t* decoder_ids, bool pair) {
    const std::lock_guard guard(mutex_);
    if (ended()) return failed_precondition("the session has ended");
    if (phase_ == Phase::preparing) return not_prepared();
    if (wanted_) return failed_precondition("a pass runs: wait until the session is idle");
    HK_ASSIGN(ids_, ids_of(ids, lengths, decoder_ids, pair));
    wanted_ = true;
    set_phase(Phase::working);
    return {};
}

Result<ForwardSession::Ids> ForwardSession::ids_of(const int32_t* ids, const uint64_t* lengths,
                                                   const int32_t* decoder_ids, bool pair) const {
    if (pair != (decoder_length_ > 0))
        return invalid_argument(pair ? "the session has no decoder_length: start its passes with hk_session_pass"
                                     : "the session has a decoder_length: start its passes with hk_session_pass_pair");
    Ids result;
    const auto take = [&](const char* name, const char* field, const int32_t* given, int64_t length,
                          std::vector<int32_t>& into) -> Status {
        if (given == nullptr && bound(field) == nullptr)
            return invalid_argument(fmt::format("{} is null, and no buffer is bound to {}", name, field));
        if (given != nullptr && bound(field) != nullptr)
            return invalid_argument(fmt::format("{} is given, but a buffer of the host is bound to {}", name, field));
        if (given != nullptr) into.assign(given, given + rows_ * length);
        return {};
    };
    HK_TRY(take("ids", "input_ids", ids, row_length_, result.encoder));
    if (pair) HK_TRY(take("decoder_ids", "decoder_input_ids", decoder_ids, decoder_length_, result.decoder));
    if (lengths != nullptr && bound("attention_mask") != nullptr)
        return invalid_argument("lengths is given, but a buffer of the host is bound to attention_mask");
    if (reads_mask_ && bound("attention_mask") == nullptr)
        result.mask.assign(static_cast<std::size_t>(rows_ * row_length_), 1);
    for (int64_t row = 0; row < rows_; ++row) {
        const uint64_t length = lengths != nullptr ? lengths[row] : static_cast<uint64_t>(row_length_);
        if (length < 1 || length > static_cast<uint64_t>(row_length_))
            return invalid_argument(fmt::format("lengths[{}] is {}, expected 1 to {}", row, length, row_length_));
        if (length < static_cast<uint64_t>(row_length_) && !reads_mask_)
            return unsupported(fmt::format("lengths[{}] is {}, expected {}: this model reads no attention_mask, so "
                                           "rows cannot be shorter than the session's",
                                           row, length, row_length_));
        if (!result.mask.empty())
            std::fill(result.mask.begin() + row * row_length_ + static_cast<int64_t>(length),
                      result.mask.begin() + (row + 1) * row_length_, 0);
        if (ids != nullptr)
            HK_TRY(check_ids(ids + row * row_length_, length, id_range_,
                             [&](uint64_t t) { return fmt::format("ids[{}][{}]", row, t); }));
    }
    const auto decoder_length = static_cast<uint64_t>(decoder_length_);
    HK_TRY(check_ids(result.decoder.data(), result.decoder.size(), decoder_id_range_, [&](uint64_t i) {
        return fmt::format("decoder_ids[{}][{}]", i / decoder_length, i % decoder_length);
    }));
    return result;
}

Status ForwardSession::prepared() const {
    HK_TRY(failed_);
    return phase_ == Phase::preparing ? not_prepared() : has_memory();
}

Status ForwardSession::tensor(const std::string& name, hk_tensor& out) {
    const std::lock_guard guard(mutex_);
    HK_TRY(prepared());
    if (const auto found = tensors_.find(name); found != tensors_.end()) {
        out = found->second;
        return {};
    }
    std::vector<std::string> names;
    for (const auto& [one, tensor] : tensors_) names.push_back(one);
    return not_found(fmt::format("there is no field or port '{}'; there are: {}", name, fmt::join(names, ", ")));
}

Status ForwardSession::tensors(const std::function<void(const std::string& name, const hk_tensor&)>& give) {
    std::map<std::string, hk_tensor> all;
    {
        const std::lock_guard guard(mutex_);
        HK_TRY(prepared());
        all = tensors_;
    }
    for (const auto& [name, tensor] : all) give(name, tensor);
    return {};
}

} // namespace hekla::api
