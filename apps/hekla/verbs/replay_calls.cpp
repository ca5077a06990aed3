// hekla replay-calls: repeats the calls of a host from a capture (hekla/capture.h), and reports which results differ.
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "command.hpp"
#include "output.hpp"

#include "api/call_fields.hpp"
#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/temporary_folder.hpp"
#include "hekla/session.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fmt/format.h>
#include <fmt/printf.h>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace hekla::app {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr double kFrame = 2000.0; // microseconds per advance for a session that catches up

// What is wrong with a line of a capture. Thrown and caught in this file.
struct Refusal {
    std::string what;
};

[[noreturn]] void refuse(std::string_view name, std::string_view expected, const json& found) {
    constexpr std::size_t kLongest = 60;
    std::string text = found.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    throw Refusal{fmt::format("\"{}\": expected {}, found {}", name, expected, text)};
}

template<class T>
T number_of(std::string_view name, const json& value) {
    if constexpr (std::is_floating_point_v<T>) {
        if (value.is_number()) return value.get<T>();
        refuse(name, "a number", value);
    } else {
        const bool fits = value.is_number_unsigned()
                              ? std::in_range<T>(value.get<uint64_t>())
                              : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
        if (fits) return value.get<T>();
        refuse(name,
               fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max()),
               value);
    }
}

template<class T>
std::vector<T> numbers_of(std::string_view name, const json& value) {
    if (!value.is_array()) refuse(name, "a list of integers", value);
    std::vector<T> all;
    for (const json& one : value) all.push_back(number_of<T>(name, one));
    return all;
}

// Empty for null pointers.
template<class T>
std::vector<T> numbers(const json& arguments, const char* name) {
    const auto given = arguments.find(name);
    return given != arguments.end() && !given->is_null() ? numbers_of<T>(name, *given) : std::vector<T>();
}

template<class T>
T number_or(const json& arguments, const char* name, T otherwise) {
    const auto given = arguments.find(name);
    return given != arguments.end() && !given->is_null() ? number_of<T>(name, *given) : otherwise;
}

std::string text_or_empty(const json& arguments, const char* name) {
    const auto given = arguments.find(name);
    if (given == arguments.end() || given->is_null()) return {};
    if (!given->is_string()) refuse(name, "a string", *given);
    return given->get<std::string>();
}

// A visitor for visit_fields() that reads JSON; missing fields keep their value. Owns what the structs point to. Lists
// that share a count in a struct have the same number of elements.
class FieldReader {
public:
    explicit FieldReader(json from) : from_(std::move(from)) {}
    static constexpr bool reads() { return true; }

    template<class T>
    void operator()(const char* name, T& value) {
        value = number_or<T>(from_, name, value);
    }
    void operator()(const char* name, hk_string& value) {
        if (from_.contains(name)) value = kept(text_or_empty(from_, name));
    }
    void list(const char* name, const hk_string*& strings, uint64_t& count) {
        const auto found = from_.find(name);
        const bool is_given = found != from_.end() && !found->is_null();
        if (is_given && !found->is_array()) refuse(name, "a list of strings", *found);
        const auto [first, added] = counted_.try_emplace(&count, name, is_given ? found->size() : 0);
        if (!is_given) return;
        if (found->size() != first->second.second)
            throw Refusal{fmt::format("\"{}\" has {} elements and \"{}\" {}; expected as many", name, found->size(),
                                      first->second.first, first->second.second)};
        std::vector<hk_string>& all = lists_.emplace_back();
        for (const json& one : *found) {
            if (!one.is_string()) refuse(name, "strings", one);
            all.push_back(kept(one.get<std::string>()));
        }
        strings = all.data();
        count = all.size();
    }
    void rows(const char* name, const int32_t* const*& rows, const uint64_t*& lengths, uint64_t& count) {
        const auto found = from_.find(name);
        if (found == from_.end() || found->is_null()) return;
        if (!found->is_array()) refuse(name, "a list of lists of integers", *found);
        for (const json& one : *found) {
            ids_.push_back(numbers_of<int32_t>(name, one));
            places_.push_back(ids_.back().data());
            lengths_.push_back(ids_.back().size());
        }
        rows = places_.data();
        lengths = lengths_.data();
        count = lengths_.size();
    }
    hk_string kept(std::string text) { return app::text(strings_.emplace_back(std::move(text))); }

private:
    json from_;
    std::deque<std::string> strings_;
    std::deque<std::vector<hk_string>> lists_;
    std::map<const uint64_t*, std::pair<const char*, std::size_t>> counted_; // the first list of each count
    std::deque<std::vector<int32_t>> ids_;
    std::vector<const int32_t*> places_;
    std::vector<uint64_t> lengths_;
};

// Results of the calls of a session, or (0) of the context.
struct Outcome {
    std::map<uint64_t, std::string> texts; // by row
    std::map<int64_t, double> losses;      // by step
    bool ended = false;                    // the last query of the session found it idle or done

    std::size_t size() const {
        std::size_t bytes = losses.size();
        for (const auto& [row, text] : texts) bytes += text.size();
        return bytes;
    }
};

struct Line {
    std::size_t number = 0;
    json content;
    std::size_t given = 0; // Outcome::size() of the session when the call returned
};

struct Recorded {
    std::string path;
    json first;
    std::vector<Line> calls;
    std::map<uint64_t, Outcome> outcomes; // by session number
};

bool at_rest(int32_t state) { return state == HK_SESSION_IDLE || state == HK_SESSION_DONE; }

uint64_t session_of(const json& line) { return number_or<uint64_t>(line, "session", 0); }

Result<Recorded> read_capture(const std::string& path) {
    HK_ASSIGN(const std::string text, read_file(path));
    Recorded recorded;
    recorded.path = path;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        if (end == std::string::npos) break; // an unfinished line: the host ended while writing it
        ++number;
        json line = json_or_null(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
        const auto wrong = [&](std::string_view what) { return corrupt(fmt::format("{}:{}: {}", path, number, what)); };
        if (!line.is_object()) return wrong("not a JSON object: expected a capture of calls (hekla/capture.h)");
        if (number == 1) {
            const auto is_text = [&](const char* key) { return line.contains(key) && line[key].is_string(); };
            if (!is_text("hekla") || (line.contains("device") && !is_text("device")))
                return wrong("not a recording of calls: its first line must name the version of Hekla");
            recorded.first = std::move(line);
            continue;
        }
        try {
            const uint64_t session = session_of(line);
            if (line.contains("step")) {
                const json& loss = line.at("loss"); // null: not finite
                recorded.outcomes[session].losses[number_of<int64_t>("step", line.at("step"))] =
                    loss.is_number() ? loss.get<double>() : std::nan("");
            } else if (line.contains("text")) {
                recorded.outcomes[session].texts[number_of<uint64_t>("row", line.at("row"))] +=
                    text_or_empty(line, "text");
            } else {
                if (text_or_empty(line, "call").empty()) return wrong("\"call\": expected the name of a function");
                static_cast<void>(number_of<int32_t>("code", line.at("code")));
                static_cast<void>(text_or_empty(line, "message"));
                const json& arguments = line.at("arguments");
                if (!arguments.is_object()) return wrong("\"arguments\": expected an object");
                Outcome& outcome = recorded.outcomes[session];
                if (arguments.contains("state"))
                    outcome.ended = at_rest(number_of<int32_t>("state", arguments.at("state")));
                recorded.calls.push_back({number, std::move(line), outcome.size()});
            }
        } catch (const Refusal& refusal) { return wrong(refusal.what); } catch (const json::exception& e) {
            return wrong(json_reason(e));
        }
    }
    if (recorded.first.is_null()) return corrupt(path + ": is empty: expected a capture of calls (hekla/capture.h)");
    return recorded;
}

// Replays a capture. Thread: the verb's; sessions call back on their own.
class Replay {
public:
    Replay(const Recorded& recorded, hk_context context, std::filesystem::path runs)
        : recorded_(recorded), context_(context), runs_(std::move(runs)) {}
    ~Replay() {
        for (auto& [number, session] : sessions_) hk_session_destroy(session.handle);
    }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    // Error: corrupt: a line whose arguments contradict each other.
    Status run() {
        for (const Line& line : recorded_.calls) {
            if (interrupted()) return {};
            current_ = &line;
            const auto wrong = [&](std::string_view what) {
                return corrupt(fmt::format("{}:{}: {}", recorded_.path, line.number, what));
            };
            try {
                play(line.content);
            } catch (const Refusal& refusal) { return wrong(refusal.what); } catch (const json::exception& e) {
                return wrong(json_reason(e));
            }
        }
        for (const auto& [number, session] : sessions_) catch_up(number, session, recorded_.outcomes.at(number).size());
        return {};
    }
    std::vector<std::string> differences() const;
    ordered_json summary() const {
        return {{"calls", calls_},
                {"left_out", left_out_},
                {"frames", frames_},
                {"measured_there_us", measured_there_},
                {"measured_here_us", measured_here_}};
    }
    bool all_done() const { return calls_ + left_out_ == recorded_.calls.size(); }

private:
    struct Session {
        hk_session handle{};
        int32_t state = HK_SESSION_PREPARING; // the state at the last advance in the capture
        std::unique_ptr<FieldReader> kept;
        int64_t rows = 0, length = 0, decoder_length = 0; // of a pass
    };
    // The user pointer of the callbacks.
    struct To {
        Replay* replay;
        uint64_t session;
    };

    void play(const json& line);
    void play_session(const std::string& name, const json& line);
    template<class Options>
    Options options_of(FieldReader& reader) {
        Options options{};
        options.struct_size = sizeof options;
        api::visit_fields(reader, options);
        return options;
    }
    // Redirects the output of a training to its own folder.
    void redirect(hk_train_options& options, FieldReader& reader, std::vector<hk_string>& overrides) {
        overrides.assign(options.overrides, options.overrides + options.override_count);
        overrides.push_back(reader.kept("output.dir=" + (runs_ / fmt::format("run-{}", current_->number)).string()));
        options.overrides = overrides.data();
        options.override_count = overrides.size();
    }
    void hear(hk_train_options& options, To* to) {
        options.user = to;
        options.step = [](void* user, const hk_train_step* step) {
            const To& to = *static_cast<To*>(user);
            const std::lock_guard guard(to.replay->mutex_);
            to.replay->outcomes_[to.session].losses[step->step] = step->loss;
        };
        options.stop = [](void*) -> int32_t { return interrupted() ? 1 : 0; };
    }
    void hear(hk_generate_options& options, To* to) {
        options.user = to;
        options.text = [](void* user, uint64_t row, hk_string piece) {
            const To& to = *static_cast<To*>(user);
            // Replaces bytes that are not UTF-8, as the capture does.
            const std::string line =
                json(std::string(view(piece))).dump(-1, ' ', false, json::error_handler_t::replace);
            const std::lock_guard guard(to.replay->mutex_);
            to.replay->outcomes_[to.session].texts[row] += json_or_null(line).get<std::string>();
        };
        options.stop = [](void*) -> int32_t { return interrupted() ? 1 : 0; };
    }
    std::size_t given(uint64_t session) {
        const std::lock_guard guard(mutex_);
        return outcomes_[session].size();
    }
    // Waits until the session is prepared and has produced as many results as in the capture. The state alone is not
    // enough, since the recorded session may have finished after the last call that queried it.
    void catch_up(uint64_t number, const Session& session, std::size_t wanted, bool rested = false) {
        hk_session_info info{};
        info.struct_size = sizeof info;
        if (session.state == HK_SESSION_PREPARING && wanted == 0 && !rested) return;
        do {
            if (hk_session_wait(session.handle, kSecond / 10, &info, nullptr) != HK_OK) return;
        } while (info.state == HK_SESSION_PREPARING && !interrupted());
        while (info.state == HK_SESSION_WORKING && !interrupted() &&
               (rested || at_rest(session.state) || given(number) < wanted)) {
            advance(session.handle, kFrame);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (hk_session_wait(session.handle, 0, &info, nullptr) != HK_OK) return;
        }
    }
    static hk_advanced advance(hk_session session, double microseconds, hk_error* error = nullptr,
                               int32_t* code = nullptr) {
        hk_advance how{};
        how.struct_size = sizeof how;
        how.microseconds = microseconds;
        hk_advanced out{};
        out.struct_size = sizeof out;
        const int32_t got = hk_session_advance(session, &how, &out, error);
        if (code != nullptr) *code = got;
        return out;
    }
    void ended(int32_t code) {
        ++calls_;
        const int32_t there = current_->content.at("code").get<int32_t>();
        if (code == there) return;
        const std::string here = code == HK_OK ? "succeeds" : std::string(view(hk_error_message(error_.error)));
        codes_.push_back(fmt::format(
            "{}:{}: {} {} there, and here: {}", recorded_.path, current_->number,
            current_->content.at("call").get<std::string>(),
            there == HK_OK ? "succeeded" : "failed (" + current_->content.value("message", "") + ")", here));
    }

    const Recorded& recorded_;
    hk_context context_;
    std::filesystem::path runs_;
    HostError error_;
    const Line* current_ = nullptr;
    std::map<uint64_t, Session> sessions_; // by their numbers in the capture
    std::deque<To> to_;
    std::deque<std::vector<hk_string>> overrides_;
    std::mutex mutex_;
    std::map<uint64_t, Outcome> outcomes_;
    std::vector<std::string> codes_;
    std::size_t calls_ = 0, left_out_ = 0, frames_ = 0;
    double measured_there_ = 0, measured_here_ = 0; // microseconds
};

void Replay::play(const json& line) {
    const std::string name = line.at("call").get<std::string>();
    if (name.starts_with("hk_session_")) return play_session(name, line);
    FieldReader reader(line.at("arguments"));
    To* to = &to_.emplace_back(To{this, 0});
    if (name == "hk_train") {
        auto options = options_of<hk_train_options>(reader);
        redirect(options, reader, overrides_.emplace_back());
        hear(options, to);
        ended(hk_train(context_, &options, nullptr, error_.error));
    } else if (name == "hk_generate") {
        auto options = options_of<hk_generate_options>(reader);
        hear(options, to);
        ended(hk_generate(context_, &options, nullptr, error_.error));
    } else if (name == "hk_evaluate") {
        const auto options = options_of<hk_evaluate_options>(reader);
        ended(hk_evaluate(context_, &options, error_.error));
    } else if (name == "hk_predict") {
        auto options = options_of<hk_predict_options>(reader);
        if (!line.at("arguments").contains("second_texts")) options.second_texts = nullptr;
        options.row = [](void*, uint64_t, hk_string) -> int32_t { return 0; };
        ended(hk_predict(context_, &options, error_.error));
    } else if (name == "hk_embed") {
        auto options = options_of<hk_embed_options>(reader);
        options.row = [](void*, uint64_t, const float*, const int64_t*, uint32_t) -> int32_t { return 0; };
        ended(hk_embed(context_, &options, error_.error));
    } else if (name == "hk_plan") {
        auto options = options_of<hk_plan_options>(reader);
        options.report = [](void*, const hk_plan_report*) {};
        ended(hk_plan(context_, &options, error_.error));
    } else {
        ++left_out_; // hk_context_pump: sessions have their own threads here
    }
}

void Replay::play_session(const std::string& name, const json& line) {
    const uint64_t number = session_of(line);
    const json& arguments = line.at("arguments");
    auto reader = std::make_unique<FieldReader>(arguments);
    FieldReader own_reader(arguments.value("session_options", json::object()));
    const auto own = options_of<hk_session_options>(own_reader);
    To* to = &to_.emplace_back(To{this, number});
    hk_session made{};
    Session pass;
    if (name == "hk_session_train") {
        auto options = options_of<hk_train_options>(*reader);
        redirect(options, *reader, overrides_.emplace_back());
        hear(options, to);
        ended(hk_session_train(context_, &options, &own, &made, error_.error));
    } else if (name == "hk_session_generate") {
        auto options = options_of<hk_generate_options>(*reader);
        hear(options, to);
        ended(hk_session_generate(context_, &options, &own, &made, error_.error));
    } else if (name == "hk_session_forward") {
        const auto options = options_of<hk_forward_options>(*reader); // in buffers allocated by Hekla
        ended(hk_session_forward(context_, &options, &own, &made, error_.error));
        pass.rows = options.rows;
        pass.length = options.length;
        pass.decoder_length = options.decoder_length;
    } else {
        const auto found = sessions_.find(number);
        if (found == sessions_.end() || name == "hk_session_run") {
            ++left_out_;
            return;
        }
        Session& session = found->second;
        const bool is_pass = name == "hk_session_pass" || name == "hk_session_pass_pair";
        if (name != "hk_session_advance") // a pass can be read only between passes
            catch_up(number, session, current_->given, is_pass && line.at("code").get<int32_t>() == HK_OK);
        if (name == "hk_session_advance") {
            const int32_t before = session.state;
            session.state = number_or(arguments, "state", before);
            if (before == HK_SESSION_PREPARING) catch_up(number, session, 0); // in the capture it was ready by then
            int32_t code = HK_OK;
            const hk_advanced out =
                advance(session.handle, number_or(arguments, "microseconds", 0.0), error_.error, &code);
            ++frames_;
            measured_there_ += number_or(arguments, "measured", 0.0);
            measured_here_ += out.measured;
            ended(code);
        } else if (is_pass) {
            const auto ids = numbers<int32_t>(arguments, "ids"),
                       decoder_ids = numbers<int32_t>(arguments, "decoder_ids");
            const auto lengths = numbers<uint64_t>(arguments, "lengths");
            const bool pair = name == "hk_session_pass_pair";
            if (ids.empty() || (pair && decoder_ids.empty())) { // the ids were in a buffer of the host
                ++left_out_;
                return;
            }
            const auto check = [&](const char* what, std::size_t found, int64_t columns) {
                const bool fits = session.rows > 0 && columns > 0 && found % static_cast<uint64_t>(columns) == 0 &&
                                  found / static_cast<uint64_t>(columns) == static_cast<uint64_t>(session.rows);
                if (!fits)
                    throw Refusal{fmt::format("\"{}\" has {} elements; expected {} rows of {}", what, found,
                                              session.rows, columns)};
            };
            check("ids", ids.size(), session.length);
            if (!lengths.empty()) check("lengths", lengths.size(), 1);
            if (pair) check("decoder_ids", decoder_ids.size(), session.decoder_length);
            const uint64_t* of_rows = lengths.empty() ? nullptr : lengths.data();
            ended(pair ? hk_session_pass_pair(session.handle, ids.data(), of_rows, decoder_ids.data(), error_.error)
                       : hk_session_pass(session.handle, ids.data(), of_rows, error_.error));
        } else if (name == "hk_session_prompt") {
            const hk_string* prompts = nullptr;
            uint64_t count = 0;
            reader->list("prompts", prompts, count);
            ended(hk_session_prompt(session.handle, prompts, count, error_.error));
        } else if (name == "hk_session_adapter_put") {
            const std::string folder = text_or_empty(arguments, "folder"), model = text_or_empty(arguments, "model");
            hk_loaded_adapter adapter{};
            const auto slot = number_or<int32_t>(arguments, "slot", 0);
            if (!folder.empty() &&
                hk_adapter_open(context_, text(folder), text(model), &adapter, error_.error) != HK_OK)
                return ended(HK_NOT_FOUND);
            ended(hk_session_adapter_put(session.handle, slot, adapter, error_.error));
            hk_adapter_destroy(adapter);
        } else if (name == "hk_session_adapter_row") {
            ended(hk_session_adapter_row(session.handle, number_or<uint64_t>(arguments, "row", 0),
                                         number_or<int32_t>(arguments, "slot", -1), number_or(arguments, "scale", 1.0),
                                         number_or<int32_t>(arguments, "flags", 0), error_.error));
        } else if (name == "hk_session_set_scalar") {
            const std::string scalar = text_or_empty(arguments, "name");
            const bool finite = arguments.contains("value") && arguments["value"].is_number(); // JSON has no NaN
            const double value = finite ? arguments["value"].get<double>() : std::numeric_limits<double>::quiet_NaN();
            ended(hk_session_set_scalar(session.handle, text(scalar), value, error_.error));
        } else if (name == "hk_session_wait") {
            hk_session_info info{};
            info.struct_size = sizeof info;
            ended(
                hk_session_wait(session.handle, number_or<uint64_t>(arguments, "nanoseconds", 0), &info, error_.error));
        } else if (name == "hk_session_stop") {
            ended(hk_session_stop(session.handle, error_.error));
        } else if (name == "hk_session_release_memory") {
            ended(hk_session_release_memory(session.handle, number_or<uint64_t>(arguments, "nanoseconds", 0),
                                            error_.error));
        } else if (name == "hk_session_restore_memory") {
            ended(hk_session_restore_memory(session.handle, error_.error));
        } else if (name == "hk_session_destroy") {
            hk_session_destroy(session.handle);
            sessions_.erase(found);
            ended(HK_OK);
        } else {
            ++left_out_;
        }
        return;
    }
    if (made.id == 0) return;
    Session& session = sessions_[number];
    if (session.handle.id != 0) hk_session_destroy(session.handle); // the capture has the number twice
    session = std::move(pass);
    session.handle = made;
    session.kept = std::move(reader);
}

std::vector<std::string> Replay::differences() const {
    std::vector<std::string> all = codes_;
    const auto whose = [](uint64_t session) {
        return session == 0 ? std::string("the calls of the context") : fmt::format("session {}", session);
    };
    for (const auto& [number, there] : recorded_.outcomes) {
        const auto found = outcomes_.find(number);
        const Outcome none;
        const Outcome& here = found != outcomes_.end() ? found->second : none;
        for (const auto& [row, text] : there.texts) {
            const auto written = here.texts.find(row);
            const std::string now = written != here.texts.end() ? written->second : std::string();
            // A host may have stopped it early; additional text is not a difference.
            if (now == text || (!there.ended && now.starts_with(text))) continue;
            const auto parted = std::ranges::mismatch(text, now);
            all.push_back(fmt::format("{}, row {}: {} of {} bytes are the same, then the text is another",
                                      whose(number), row, parted.in1 - text.begin(), text.size()));
        }
        for (const auto& [step, loss] : there.losses) {
            const auto computed = here.losses.find(step);
            const double now = computed != here.losses.end() ? computed->second : std::nan("");
            if (now == loss || (std::isnan(now) && std::isnan(loss))) continue;
            all.push_back(
                computed != here.losses.end()
                    ? fmt::format("{}: the loss of step {} is {:.9g}, and was {:.9g}", whose(number), step, now, loss)
                    : fmt::format("{}: step {} is missing", whose(number), step));
            break; // all later ones differ, too
        }
    }
    return all;
}

int run_replay_calls(const Globals& globals, const std::string& path, bool as_json) {
    Result<Recorded> recorded = read_capture(path);
    if (!recorded.ok()) return fail(recorded.status());
    Result<TemporaryFolder> runs = TemporaryFolder::make();
    if (!runs.ok()) return fail(runs.status());
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    watch_interrupts(kStoppedEarly);
    std::fprintf(stderr, "%zu calls of Hekla %s on %s\n", recorded->calls.size(),
                 printable(recorded->first.value("hekla", "")).c_str(),
                 printable(recorded->first.value("device", "")).c_str());
    Replay replay(recorded.value(), context.context, runs->path());
    if (const Status played = replay.run(); !played.ok()) return fail(played);
    if (!replay.all_done()) return fail(std::string("interrupted before the last call"));
    const std::vector<std::string> differences = replay.differences();
    ordered_json summary = replay.summary();
    summary["differences"] = differences;
    if (as_json) {
        std::printf("%s\n", json_line(summary).c_str());
    } else {
        for (const std::string& one : differences) print_foreign(one + "\n");
        std::printf("%zu calls made again, %zu left out, %zu differences", summary["calls"].get<std::size_t>(),
                    summary["left_out"].get<std::size_t>(), differences.size());
        if (summary["frames"] > 0)
            fmt::printf("; %zu frames took %.1f ms of the device, and there %.1f", summary["frames"].get<std::size_t>(),
                        summary["measured_here_us"].get<double>() / 1e3,
                        summary["measured_there_us"].get<double>() / 1e3);
        std::printf("\n");
    }
    return differences.empty() ? kDone : kFailed;
}

} // namespace

void add_replay_calls(CLI::App& app, const Globals& globals, Verbs& verbs) {
    struct Arguments {
        std::string path;
        bool json = false;
    };
    const auto a = std::make_shared<Arguments>();
    CLI::App* verb =
        app.add_subcommand("replay-calls", "Repeat the calls that a host or --capture recorded, and report different "
                                           "results.");
    verb->add_option("file", a->path, "recording of hk_capture or --capture")->required();
    verb->add_flag("--json", a->json, "print the result as JSON");
    verb->footer(
        "Example: hekla replay-calls game.calls\n"
        "Sessions run on threads of their own, trainings write to temporary folders, and the contents of the host's\n"
        "buffers, semaphores and command buffers are omitted. The exit status is 1 if a call ends with another "
        "status,\n"
        "a text differs, or a loss is not the same to the last bit.");
    verbs.push_back({verb, [&globals, a] { return run_replay_calls(globals, a->path, a->json); }});
}

} // namespace hekla::app
