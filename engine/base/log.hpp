// Messages of the engine. The library prints nothing: each context owns a Log, and the host provides the sink.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hekla {

enum class Severity : int32_t { debug = 0, info = 1, warning = 2, error = 3 };

// A logger. Thread: any, if the sink is. An empty sink drops everything.
class Log {
public:
    using Sink = std::function<void(Severity, std::string_view message)>;

    Log() = default;
    explicit Log(Sink sink, Severity least = Severity::info) : sink_(std::move(sink)), least_(least) {}

    void write(Severity severity, std::string_view message) const {
        if (sink_ && severity >= least_) sink_(severity, message);
    }
    void debug(std::string_view message) const { write(Severity::debug, message); }
    void info(std::string_view message) const { write(Severity::info, message); }
    void warning(std::string_view message) const { write(Severity::warning, message); }
    void error(std::string_view message) const { write(Severity::error, message); }

private:
    Sink sink_;
    Severity least_ = Severity::info;
};

} // namespace hekla
