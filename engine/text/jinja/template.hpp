// A template in the part of Jinja (jinja.palletsprojects.com) that chat templates of published models use, rendered as
// transformers does. Nothing in it reaches the machine: no files, no clock (strftime_now() prints the date that it is
// given, and is undefined without one), and time and memory are bounded.
#pragma once

#include "base/status.hpp"
#include "text/jinja/date_time.hpp"
#include "text/jinja/syntax.hpp"
#include "text/jinja/value.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text::jinja {

struct Rendered {
    std::string text;
    std::vector<std::pair<std::size_t, std::size_t>> generations; // bytes [begin, end) inside {% generation %}
};

// Immutable. Thread: any.
class Template {
public:
    // Errors: parse().
    static Result<Template> parse(std::string_view text);
    // Errors contain the line: a variable, filter, test, function or method that does not exist, operands of the wrong
    // type, what the template itself refuses by raise_exception(), too much time or text.
    Result<Rendered> render(const Dict& variables, const std::optional<DateTime>& now = {}) const;
    // Returns whether strftime_now occurs in it: its text may depend on the date.
    bool reads_date() const { return reads_date_; }

private:
    std::shared_ptr<const Nodes> nodes_;
    bool reads_date_ = false;
};

} // namespace hekla::text::jinja
