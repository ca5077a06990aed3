// New files and folders with the modes that the process's umask leaves, which mkstemp() and mkdtemp() do not obey.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <system_error>

namespace hekla {

// Calls make(NAME) with the last six characters of `name` drawn at random, until its result, an error code, is not
// file_exists. Returns that result; if it is empty, `name` is the one that was made.
template<class F>
std::error_code make_unique_name(std::string& name, F&& make) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    constexpr int kTries = 100;
    std::random_device random;
    std::error_code problem;
    for (int i = 0; i < kTries; ++i) {
        for (std::size_t at = name.size() - 6; at < name.size(); ++at) name[at] = kLetters[random() % kLetters.size()];
        problem = make(name);
        if (problem != std::errc::file_exists) break;
    }
    return problem;
}

} // namespace hekla
