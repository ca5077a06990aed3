#include "api/loaded_adapter.hpp"

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/context.hpp"
#include "api/handles.hpp"
#include "infer/open/open_model.hpp"

namespace hekla::api {

Result<std::shared_ptr<LoadedAdapter>> LoadedAdapter::open(const Context& context, const std::string& folder,
                                                           const std::string& model) {
    std::shared_ptr<LoadedAdapter> adapter(new LoadedAdapter());
    HK_ASSIGN(adapter->content_, infer::read_slot_content(context.registry(), folder, model, context.log()));
    adapter->folder_ = folder;
    adapter->model_ = model;
    return adapter;
}

} // namespace hekla::api

using hekla::Status;
using hekla::api::Context;
using hekla::api::guarded;
using hekla::api::Handles;
using hekla::api::LoadedAdapter;

extern "C" {

int32_t hk_adapter_open(hk_context context, hk_string folder, hk_string model, hk_loaded_adapter* out,
                        hk_error* error) {
    return guarded(error, [&]() -> Status {
        if (out == nullptr) return hekla::invalid_argument("out is null");
        HK_TRY(hekla::api::check_text("folder", folder));
        HK_TRY(hekla::api::check_text("model", model));
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_ASSIGN(std::shared_ptr<LoadedAdapter> adapter,
                  LoadedAdapter::open(call.context(), hekla::api::string_of(folder), hekla::api::string_of(model)));
        out->id = Handles<LoadedAdapter>::all().add(std::move(adapter));
        return {};
    });
}

void hk_adapter_destroy(hk_loaded_adapter adapter) {
    guarded(nullptr, [&]() -> Status {
        Handles<LoadedAdapter>::all().remove(adapter.id);
        return {};
    });
}

} // extern "C"
