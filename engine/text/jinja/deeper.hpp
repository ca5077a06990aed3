// Counts the depth of a recursion while it exists.
#pragma once

namespace hekla::text::jinja {

class Deeper {
public:
    explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

private:
    int& depth_;
};

} // namespace hekla::text::jinja
