// New files and folders with the modes that the process's umask leaves, which mkstemp() and mkdtemp() do not obey.
#pragma once

#include <cerrno>
#include <random>
#include <string>
#include <string_view>

namespace hekla {

// Calls make(NAME) with the last six characters of `name` drawn at random, until it is not false with errno EEXIST.
// Returns its result; then `name` is the one that was made, or errno is set.
template<class F>
bool make_unique_name(std::string& name, F&& make) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    constexpr int kTries = 100;
    std::random_device random;
    for (int i = 0; i < kTries; ++i) {
        for (std::size_t at = name.size() - 6; at < name.size(); ++at) name[at] = kLetters[random() % kLetters.size()];
        if (make(name.c_str())) return true;
        if (errno != EEXIST) return false;
    }
    return false;
}

} // namespace hekla
