#include "plugin/trace/trace_log.hpp"

#include "base/system_file.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin::trace {

namespace {

struct TracedRule {
    std::string_view id;
    bool traced;
    std::string_view text;
};
constexpr TracedRule kRules[] = {
#define HK_RULE(id, traced, text) {id, traced, text},
#include "plugin/trace/rules.inc"
#undef HK_RULE
};

std::string plugin_here() { return frames().empty() ? "?" : frames().back().plugin; }

int thread_number() {
    Trace& t = *current_trace();
    const std::scoped_lock hold(t.lock);
    return t.threads.emplace(std::this_thread::get_id(), static_cast<int>(t.threads.size()) + 1).first->second;
}

} // namespace

Trace*& current_trace() {
    static Trace* trace = nullptr;
    return trace;
}

std::vector<Frame>& frames() {
    static thread_local std::vector<Frame> stack;
    return stack;
}

void write_line(std::string line) {
    line += '\n';
    // One write per line, since several processes may share the file. A failed write must not end the program.
    const FileHandle& file = current_trace()->file;
    (void)(file.is_open() ? write_all(file, line) : write_to_standard_error(line));
}

double milliseconds() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - current_trace()->start).count();
}

void report_broken(std::string_view rule, const std::string& what) {
    Trace& t = *current_trace();
    {
        const std::scoped_lock hold(t.lock);
        ++t.broken[std::string(rule)];
    }
    const auto found = std::ranges::find(kRules, rule, &TracedRule::id);
    const std::string_view text = found != std::end(kRules) ? found->text : "";
    const std::string call = frames().empty() ? "" : frames().back().call;
    if (t.json)
        write_line(dumped({{"time_ms", milliseconds()},
                           {"thread", thread_number()},
                           {"broken", rule},
                           {"plugin", plugin_here()},
                           {"in", call},
                           {"what", what},
                           {"rule", text}}));
    else
        write_line(fmt::format("BROKEN [{}] {}{}{}: {}\n       the rule: {}", rule, plugin_here(),
                               call.empty() ? "" : " in ", call, what, text));
}

void write_call(Event event, std::size_t depth, std::string_view call, const ordered_json& arguments,
                const std::string& result, const std::string& error, double took) {
    Trace& t = *current_trace();
    if (t.json) {
        ordered_json line{{"time_ms", milliseconds()},
                          {"thread", thread_number()},
                          {"depth", depth},
                          {"event", event == Event::enter   ? "begin"
                                    : event == Event::leave ? "end"
                                                            : "call"},
                          {"from", event == Event::within ? "plugin" : "host"},
                          {"plugin", plugin_here()},
                          {"call", call}};
        if (event != Event::leave) line["arguments"] = arguments;
        if (!result.empty()) line["result"] = result;
        if (!error.empty()) line["error"] = error;
        if (took >= 0) line["took_ms"] = took;
        write_line(dumped(line));
        return;
    }
    std::string text;
    for (const auto& [name, value] : arguments.items())
        text += (text.empty() ? "" : ", ") + name + ": " + dumped(value);
    write_line(fmt::format("{:10.3f} {} {}{} {} {}{}{}{}{}", milliseconds(), thread_number(),
                           std::string(2 * depth, ' '), static_cast<char>(event), plugin_here(), call,
                           event == Event::leave ? "" : fmt::format("({})", text), result.empty() ? "" : " = " + result,
                           error.empty() ? "" : " " + quoted_text(error),
                           took >= 0 ? fmt::format(" {:.3f} ms", took) : ""));
}

void note_use(std::string_view table, uint32_t since) {
    Trace& t = *current_trace();
    const std::scoped_lock hold(t.lock);
    uint32_t& newest = t.used[std::string(table)];
    newest = std::max(newest, since);
}

} // namespace hekla::plugin::trace
