// Implementation of hekla/model.h: the parameters of a session.
#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/handles.hpp"
#include "api/parameter.hpp"
#include "api/session.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

namespace hekla::api {

Session::PublishedStore::PublishedStore(Session& session, program::ParameterStore& store) : session_(session) {
    const std::lock_guard guard(session_.mutex_);
    session_.store_ = &store;
}

Session::PublishedStore::~PublishedStore() {
    const std::lock_guard guard(session_.mutex_);
    session_.store_ = nullptr;
}

Result<program::ParameterStore*> Session::parameter_store() {
    HK_TRY(failed_);
    if (store_ != nullptr) return store_;
    if (phase_ == Phase::preparing) return not_prepared();
    if (ended()) return failed_precondition("the session has ended");
    return invalid_argument("the session generates text: only those of hk_session_train and hk_session_forward show "
                            "their parameters");
}

Status Session::parameters(const std::function<void(const hk_parameter&)>& give) {
    std::vector<program::ParameterEntry> table;
    bool trains = false;
    {
        const std::lock_guard guard(mutex_);
        HK_ASSIGN(const program::ParameterStore* store, parameter_store());
        table = store->table();
        trains = store->has(program::StoreArena::gradients);
    }
    for (const program::ParameterEntry& entry : table)
        give(described_parameter(entry.name, entry.shape, trains && entry.trained));
    return {};
}

Status Session::parameter(const std::string& name, int32_t what, hk_tensor& out) {
    if (what < HK_PARAMETER_VALUE || what > HK_PARAMETER_SECOND_MOMENT)
        return invalid_argument(
            fmt::format("what is {}, expected 0 to {} (HK_PARAMETER_*)", what, HK_PARAMETER_SECOND_MOMENT));
    const std::lock_guard guard(mutex_);
    HK_ASSIGN(const program::ParameterStore* store, parameter_store());
    HK_TRY(has_memory());
    const program::ParameterEntry* entry = store->find(name);
    if (entry == nullptr) return not_found(fmt::format("there is no parameter '{}'", name));
    const auto arena = static_cast<program::StoreArena>(what);
    if (!store->has(arena, entry->chunk))
        return failed_precondition(fmt::format("the parameter '{}' has no gradient and no moments: {}", name,
                                               entry->trained ? "the session does not train" : "it is not trained"));
    const gpu::Buffer& buffer = store->buffer(arena, entry->chunk);
    const VkBuffer handle = buffer.handle();
    hk_tensor t{};
    t.struct_size = sizeof t;
    t.kind = HK_TENSOR_FLOAT32; // as in a session's store
    t.rank = static_cast<uint32_t>(entry->shape.rank());
    std::ranges::copy(entry->shape.dims(), t.dims);
    t.buffer.struct_size = sizeof t.buffer;
    std::memcpy(&t.buffer.buffer, &handle, sizeof t.buffer.buffer);
    t.buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                     VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    t.buffer.address = buffer.address();
    t.buffer.offset = entry->offset * sizeof(float);
    t.buffer.bytes = static_cast<uint64_t>(entry->shape.elements()) * sizeof(float);
    t.buffer.queue_family = runtime_->gpu().device->queue_family();
    t.buffer.memory_has_address = 1;
    out = t;
    return {};
}

} // namespace hekla::api

using hekla::Status;
using hekla::api::complete;
using hekla::api::guarded;
using hekla::api::Handles;
using hekla::api::Session;

extern "C" {

int32_t hk_session_tensors(hk_session session, void* user,
                           void (*give)(void* user, hk_string name, const hk_tensor* tensor), hk_error* error) {
    return guarded(error, [&]() -> Status {
        if (give == nullptr) return hekla::invalid_argument("give is null");
        HK_ASSIGN(const std::shared_ptr<Session> found, Handles<Session>::all().find(session.id, "session"));
        return found->tensors(
            [&](const std::string& name, const hk_tensor& tensor) { give(user, hekla::api::view(name), &tensor); });
    });
}

int32_t hk_session_parameters(hk_session session, void* user, void (*give)(void* user, const hk_parameter* parameter),
                              hk_error* error) {
    return guarded(error, [&]() -> Status {
        if (give == nullptr) return hekla::invalid_argument("give is null");
        HK_ASSIGN(const std::shared_ptr<Session> found, Handles<Session>::all().find(session.id, "session"));
        return found->parameters([&](const hk_parameter& parameter) { give(user, &parameter); });
    });
}

int32_t hk_session_parameter(hk_session session, hk_string name, int32_t what, hk_tensor* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(complete(out, "hk_tensor"));
        HK_TRY(hekla::api::check_text("name", name));
        HK_ASSIGN(const std::shared_ptr<Session> found, Handles<Session>::all().find(session.id, "session"));
        return found->parameter(hekla::api::string_of(name), what, *out);
    });
}

} // extern "C"
