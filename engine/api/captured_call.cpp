#include "api/captured_call.hpp"

#include "api/context.hpp"
#include "api/handles.hpp"
#include "text/jinja/date_time.hpp"

namespace hekla::api {

void record_date(nlohmann::ordered_json& fields) {
    const auto date = fields.find("chat_date");
    if (date == fields.end() || *date != "" || fields.at("chat_template") == "") return;
    Result<std::string> today = text::jinja::DateTime::now().formatted("%Y-%m-%d");
    if (today.ok()) *date = today.take();
}

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
