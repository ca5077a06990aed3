#include "api/captured_call.hpp"

#include "api/context.hpp"
#include "api/handles.hpp"

namespace hekla::api {

std::shared_ptr<Capture> capture_of(hk_context context) noexcept {
    std::shared_ptr<Capture> capture;
    guarded(nullptr, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
        capture = found->capture();
        return {};
    });
    return capture;
}

} // namespace hekla::api
