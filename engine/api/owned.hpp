// Copies of option structs.
#pragma once

#include "api/boundary.hpp"
#include "api/call_fields.hpp"

#include <deque>

namespace hekla::api {

// A copy of an options struct with the strings that its members of visit_fields() point to.
template<class Options>
class Owned {
public:
    explicit Owned(const Options& given) : options_(given) { visit_fields(*this, options_); }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    // Its strings are valid as long as this object.
    const Options& get() const { return options_; }

    // The visitor: replaces what a member points to by a copy.
    static constexpr bool reads() { return false; }
    template<class T>
    void operator()(const char*, T&) {}
    void operator()(const char*, hk_string& text) { text = kept(text); }
    void list(const char*, const hk_string*& strings, uint64_t count) {
        std::vector<hk_string>& all = lists_.emplace_back();
        for (uint64_t i = 0; i < count; ++i) all.push_back(kept(strings[i]));
        strings = all.data();
    }

private:
    hk_string kept(hk_string text) { return view(texts_.emplace_back(string_of(text))); }

    Options options_;
    std::deque<std::string> texts_;
    std::deque<std::vector<hk_string>> lists_;
};

} // namespace hekla::api
