// A date and a time of day, for the function strftime_now() of chat templates.
#pragma once

#include "base/status.hpp"

#include <string>
#include <string_view>

namespace hekla::text::jinja {

struct DateTime {
    int year = 1970, month = 1, day = 1; // of the Gregorian calendar; month and day from 1
    int hour = 0, minute = 0, second = 0;

    // Returns the local time of now.
    static DateTime now();
    // Returns the beginning of a day. Error: not "2026-01-31", with what was given.
    static Result<DateTime> of_day(std::string_view date);

    // Returns Python's strftime() in the C locale, whatever the locale of the process is. Error: a directive that it
    // does not know, with those that it does.
    Result<std::string> formatted(std::string_view format) const;
};

} // namespace hekla::text::jinja
