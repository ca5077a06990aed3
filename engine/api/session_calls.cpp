// The functions of hekla/session.h.
#include "hekla/session.h"

#include "api/boundary.hpp"
#include "api/captured_call.hpp"
#include "api/forward_session.hpp"
#include "api/generation_session.hpp"
#include "api/handles.hpp"
#include "api/loaded_adapter.hpp"
#include "api/training_session.hpp"

#include <memory>

using hekla::Result;
using hekla::Status;
using hekla::api::complete;
using hekla::api::Context;
using hekla::api::guarded;
using hekla::api::Handles;
using hekla::api::LoadedAdapter;
using hekla::api::Session;

namespace {

using nlohmann::ordered_json;

// Returns null for a handle that does not exist.
std::shared_ptr<Session> session_of(hk_session handle) noexcept {
    std::shared_ptr<Session> session;
    guarded(nullptr, [&]() -> Status {
        HK_ASSIGN(session, Handles<Session>::all().find(handle.id, "session"));
        return {};
    });
    return session;
}

std::shared_ptr<hekla::api::Capture> capture_of(const std::shared_ptr<Session>& session) {
    return session != nullptr ? session->capture() : nullptr;
}

// Runs a call on a session, and captures it with its arguments.
template<class Arguments, class F>
int32_t on_session(hk_session handle, const char* name, hk_error* error, const Arguments& arguments, F&& f) noexcept {
    const std::shared_ptr<Session> session = session_of(handle);
    return hekla::api::captured(
        capture_of(session), name, error, arguments, [&] { return handle.id; },
        [&]() -> Status {
            if (session != nullptr) return f(*session);
            return Handles<Session>::all().find(handle.id, "session").status();
        });
}

ordered_json nothing() { return ordered_json::object(); }

template<class Options, class F>
int32_t begin_session(hk_context context, const char* name, const Options* options, const hk_session_options* own,
                      hk_session* out, hk_error* error, F&& begin) noexcept {
    hk_session made{};
    const auto arguments = [&] {
        ordered_json all = hekla::api::fields_of(options);
        all["session_options"] = hekla::api::fields_of(own);
        return all;
    };
    return hekla::api::captured(
        hekla::api::capture_of(context), name, error, arguments, [&] { return made.id; },
        [&]() -> Status {
            if (out == nullptr) return hekla::invalid_argument("out is null");
            HK_TRY(hekla::api::check(options));
            if (own != nullptr) HK_TRY(hekla::api::check(own));
            HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
            HK_ASSIGN(const std::shared_ptr<Session> session, begin(found));
            made.id = Handles<Session>::all().add(session);
            *out = made;
            session->set_handle(made.id);
            return {};
        });
}

// pair: with ids for the decoder.
int32_t begin_pass(hk_session session, const char* name, const int32_t* ids, const uint64_t* lengths,
                   const int32_t* decoder_ids, bool pair, hk_error* error) {
    Session::PassShape shape;
    const auto arguments = [&] { // null: the host's buffers hold the ids
        ordered_json all{{"ids", nullptr}, {"lengths", nullptr}};
        if (ids != nullptr) all["ids"] = std::vector<int32_t>(ids, ids + shape.rows * shape.length);
        if (lengths != nullptr) all["lengths"] = std::vector<uint64_t>(lengths, lengths + shape.rows);
        if (!pair) return all;
        all["decoder_ids"] = nullptr;
        if (decoder_ids != nullptr)
            all["decoder_ids"] = std::vector<int32_t>(decoder_ids, decoder_ids + shape.rows * shape.decoder_length);
        return all;
    };
    return on_session(session, name, error, arguments, [&](Session& found) -> Status {
        shape = found.pass_shape();
        HK_TRY(found.pass(ids, lengths, decoder_ids, pair));
        found.ask_for_job();
        return {};
    });
}

} // namespace

extern "C" {

int32_t hk_session_train(hk_context context, const hk_train_options* options, const hk_session_options* session_options,
                         hk_session* out, hk_error* error) {
    return begin_session(context, "hk_session_train", options, session_options, out, error,
                         [&](const std::shared_ptr<Context>& found) -> Result<std::shared_ptr<Session>> {
                             if (options->communicator != nullptr)
                                 return hekla::unsupported("hk_train_options.communicator is set, expected null: a "
                                                           "session trains alone; use hk_train for several ranks");
                             return hekla::api::TrainingSession::create(found, *options, session_options);
                         });
}

int32_t hk_session_generate(hk_context context, const hk_generate_options* options,
                            const hk_session_options* session_options, hk_session* out, hk_error* error) {
    return begin_session(context, "hk_session_generate", options, session_options, out, error,
                         [&](const std::shared_ptr<Context>& found) -> Result<std::shared_ptr<Session>> {
                             return hekla::api::GenerationSession::create(found, *options, session_options);
                         });
}

int32_t hk_session_forward(hk_context context, const hk_forward_options* options,
                           const hk_session_options* session_options, hk_session* out, hk_error* error) {
    return begin_session(context, "hk_session_forward", options, session_options, out, error,
                         [&](const std::shared_ptr<Context>& found) -> Result<std::shared_ptr<Session>> {
                             return hekla::api::ForwardSession::create(found, *options, session_options);
                         });
}

int32_t hk_session_pass(hk_session session, const int32_t* ids, const uint64_t* lengths, hk_error* error) {
    return begin_pass(session, "hk_session_pass", ids, lengths, nullptr, false, error);
}

int32_t hk_session_pass_pair(hk_session session, const int32_t* ids, const uint64_t* lengths,
                             const int32_t* decoder_ids, hk_error* error) {
    return begin_pass(session, "hk_session_pass_pair", ids, lengths, decoder_ids, true, error);
}

int32_t hk_session_tensor(hk_session session, hk_string name, hk_tensor* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(complete(out, "hk_tensor"));
        HK_TRY(hekla::api::check_text("name", name));
        HK_ASSIGN(const std::shared_ptr<Session> found, Handles<Session>::all().find(session.id, "session"));
        return found->tensor(hekla::api::string_of(name), *out);
    });
}

int32_t hk_session_prompt(hk_session session, const hk_string* prompts, uint64_t count, hk_error* error) {
    const auto arguments = [&] {
        ordered_json all = nothing();
        all["prompts"] = hekla::api::texts(prompts, count);
        return all;
    };
    return on_session(session, "hk_session_prompt", error, arguments, [&](Session& found) -> Status {
        HK_TRY(hekla::api::check_texts("prompts", prompts, "count", count));
        HK_TRY(found.prompt(hekla::api::texts(prompts, count)));
        found.ask_for_job();
        return {};
    });
}

int32_t hk_session_adapter_put(hk_session session, int32_t slot, hk_loaded_adapter adapter, hk_error* error) {
    std::shared_ptr<LoadedAdapter> found_adapter;
    const auto arguments = [&] {
        const bool none = found_adapter == nullptr;
        return ordered_json{{"slot", slot},
                            {"folder", none ? std::string() : found_adapter->folder()},
                            {"model", none ? std::string() : found_adapter->model()}};
    };
    return on_session(session, "hk_session_adapter_put", error, arguments, [&](Session& found) -> Status {
        if (adapter.id != 0) { HK_ASSIGN(found_adapter, Handles<LoadedAdapter>::all().find(adapter.id, "adapter")); }
        return found.put_adapter(slot, found_adapter.get());
    });
}

int32_t hk_session_adapter_row(hk_session session, uint64_t row, int32_t slot, double scale, int32_t flags,
                               hk_error* error) {
    const auto arguments = [&] {
        return ordered_json{{"row", row}, {"slot", slot}, {"scale", scale}, {"flags", flags}};
    };
    return on_session(session, "hk_session_adapter_row", error, arguments,
                      [&](Session& found) { return found.set_adapter_row(row, slot, scale, flags); });
}

int32_t hk_session_set_scalar(hk_session session, hk_string name, double value, hk_error* error) {
    const auto arguments = [&] { return ordered_json{{"name", hekla::api::string_of(name)}, {"value", value}}; };
    return on_session(session, "hk_session_set_scalar", error, arguments,
                      [&](Session& found) { return found.set_scalar(hekla::api::string_of(name), value); });
}

int32_t hk_session_wait(hk_session session, uint64_t nanoseconds, hk_session_info* out, hk_error* error) {
    const auto look = [&](Session& found) -> Status {
        HK_TRY(complete(out, "hk_session_info"));
        found.describe(hekla::api::nanoseconds_of(nanoseconds), *out);
        return {};
    };
    const auto arguments = [&] { return ordered_json{{"nanoseconds", nanoseconds}}; };
    if (nanoseconds > 0) return on_session(session, "hk_session_wait", error, arguments, look);
    return guarded(error, [&]() -> Status { // polling is not captured
        HK_ASSIGN(const std::shared_ptr<Session> found, Handles<Session>::all().find(session.id, "session"));
        return look(*found);
    });
}

int32_t hk_session_advance(hk_session session, const hk_advance* advance, hk_advanced* out, hk_error* error) {
    hk_advanced done{};
    const auto arguments = [&] { // with the results
        ordered_json all = nothing();
        if (!hekla::api::check(advance).ok()) return all;
        all["microseconds"] = advance->microseconds;
        all["waits"] = advance->wait_count;
        all["signals"] = advance->signal_count;
        all["recorded"] = advance->command_buffer != nullptr;
        all["state"] = done.state;
        all["pieces"] = done.pieces;
        all["expected"] = done.expected;
        all["measured"] = done.measured;
        return all;
    };
    return on_session(session, "hk_session_advance", error, arguments, [&](Session& found) -> Status {
        HK_TRY(hekla::api::check(advance));
        if (out != nullptr) HK_TRY(complete(out, "hk_advanced"));
        HK_TRY(found.advance(*advance, &done));
        if (out == nullptr) return {};
        done.struct_size = out->struct_size;
        *out = done;
        return {};
    });
}

int32_t hk_session_run(hk_session session, hk_error* error) {
    return on_session(session, "hk_session_run", error, nothing, [](Session& found) { return found.run(); });
}

int32_t hk_context_pump(hk_context context, uint64_t nanoseconds, hk_pumped* out, hk_error* error) {
    const auto arguments = [&] { return ordered_json{{"nanoseconds", nanoseconds}}; };
    return hekla::api::captured(
        hekla::api::capture_of(context), "hk_context_pump", error, arguments, [] { return uint64_t{0}; },
        [&]() -> Status {
            if (out != nullptr) HK_TRY(complete(out, "hk_pumped"));
            HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
            HK_ASSIGN(const Context::Pumped pumped, found->pump(hekla::api::nanoseconds_of(nanoseconds)));
            if (out != nullptr) {
                out->sessions = pumped.clients;
                out->waiting = pumped.waiting;
            }
            return {};
        });
}

int32_t hk_session_replace_callbacks(hk_session session, const hk_session_callbacks* callbacks, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(hekla::api::check(callbacks));
        HK_ASSIGN(const std::shared_ptr<Session> found, Handles<Session>::all().find(session.id, "session"));
        return found->replace(*callbacks);
    });
}

int32_t hk_session_release_memory(hk_session session, uint64_t nanoseconds, hk_error* error) {
    const auto arguments = [&] { return ordered_json{{"nanoseconds", nanoseconds}}; };
    return on_session(session, "hk_session_release_memory", error, arguments, [&](Session& found) -> Status {
        HK_ASSIGN(const bool released, found.release_memory(hekla::api::nanoseconds_of(nanoseconds)));
        if (released) return {};
        return {hekla::Code::cancelled,
                "the session was still busy when the time was up, and keeps its memory: call it again"};
    });
}

int32_t hk_session_restore_memory(hk_session session, hk_error* error) {
    return on_session(session, "hk_session_restore_memory", error, nothing,
                      [](Session& found) { return found.restore_memory(); });
}

int32_t hk_session_stop(hk_session session, hk_error* error) {
    return on_session(session, "hk_session_stop", error, nothing, [](Session& found) -> Status {
        found.stop();
        return {};
    });
}

void hk_session_destroy(hk_session session) {
    hekla::api::captured(
        capture_of(session_of(session)), "hk_session_destroy", nullptr, nothing, [&] { return session.id; },
        [&]() -> Status {
            if (const std::shared_ptr<Session> gone = Handles<Session>::all().remove(session.id)) gone->destroy();
            return {};
        });
}

} // extern "C"
