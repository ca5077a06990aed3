#include "exchange/tree_sum.hpp"

#include <bit>
#include <cfenv>
#include <fmt/format.h>

namespace hekla::exchange {
namespace {

// Returns where the node's left half ends.
uint32_t middle_of(PartRange node) { return node.first + std::bit_ceil(node.end - node.first) / 2; }

void find_nodes(PartRange node, PartRange range, std::vector<PartRange>& found) {
    if (node.first >= range.end || node.end <= range.first) return;
    if (node.first >= range.first && node.end <= range.end) {
        found.push_back(node);
        return;
    }
    const uint32_t middle = middle_of(node);
    find_nodes({node.first, middle}, range, found);
    find_nodes({middle, node.end}, range, found);
}

void add_all(float* __restrict to, const float* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

// The default floating-point environment, and the thread's own again at the end.
class DefaultRounding {
public:
    DefaultRounding() {
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
    }
    DefaultRounding(const DefaultRounding&) = delete;
    DefaultRounding& operator=(const DefaultRounding&) = delete;
    ~DefaultRounding() { std::fesetenv(&before_); }

private:
    std::fenv_t before_{};
};

Result<std::span<float>> sum_of(PartRange range, std::span<const Node>& nodes) {
    if (!nodes.empty() && nodes.front().parts == range) {
        const std::span<float> values = nodes.front().values;
        nodes = nodes.subspan(1);
        return values;
    }
    if (range.end - range.first < 2)
        return internal_error(fmt::format("the ranks' sums do not contain part {}", range.first));
    const uint32_t middle = middle_of(range);
    HK_ASSIGN(const std::span<float> left, sum_of({range.first, middle}, nodes));
    HK_ASSIGN(const std::span<float> right, sum_of({middle, range.end}, nodes));
    if (left.size() != right.size()) return internal_error("the ranks' sums have different sizes");
    add(left, right);
    return left;
}

} // namespace

bool is_node(uint32_t parts, PartRange range) {
    PartRange node{0, parts};
    while (node != range && node.end - node.first > 1) {
        const uint32_t middle = middle_of(node);
        if (range.end <= middle) {
            node.end = middle;
        } else if (range.first >= middle) {
            node.first = middle;
        } else {
            return false;
        }
    }
    return node == range;
}

std::vector<PartRange> nodes_of(uint32_t parts, PartRange range) {
    std::vector<PartRange> found;
    if (parts > 0) find_nodes({0, parts}, range, found);
    return found;
}

PartRange parts_of_rank(uint32_t parts, int32_t rank, int32_t ranks) {
    const auto bound = [&](int32_t r) {
        return static_cast<uint32_t>(uint64_t{parts} * static_cast<uint32_t>(r) / static_cast<uint32_t>(ranks));
    };
    return {bound(rank), bound(rank + 1)};
}

std::vector<PartRange> parts_by_rank(uint32_t parts, int32_t ranks, std::span<const uint32_t> shares) {
    std::vector<PartRange> all;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        const uint32_t first = all.empty() ? 0 : all.back().end;
        all.push_back(shares.empty() ? parts_of_rank(parts, rank, ranks)
                                     : PartRange{first, first + shares[static_cast<std::size_t>(rank)]});
    }
    return all;
}

void add(std::span<float> to, std::span<const float> from) {
    const DefaultRounding rounding;
    add_all(to.data(), from.data(), to.size());
}

Result<std::span<float>> sum_of_tree(uint32_t parts, std::span<const Node> nodes) {
    HK_ASSIGN(const std::span<float> sum, sum_of({0, parts}, nodes));
    if (!nodes.empty()) return internal_error("the ranks' sums contain a part twice");
    return sum;
}

void PartSums::clear() {
    for (Sum& sum : sums_) free_.push_back(std::move(sum.values));
    sums_.clear();
    merged_ = 0;
}

std::span<float> PartSums::next_part() {
    const uint32_t first = sums_.empty() ? own_.first : sums_.back().parts.end;
    Sum next{{first, first + 1}, {}};
    if (free_.empty()) {
        next.values = ResourceArray<float>(elements_);
    } else {
        next.values = std::move(free_.back());
        free_.pop_back();
    }
    sums_.push_back(std::move(next));
    merged_ = 0;
    while (merged_ + 1 < sums_.size() && is_node(parts_, {sums_[sums_.size() - 2 - merged_].parts.first, first + 1}))
        ++merged_;
    return {sums_.back().values.data(), elements_};
}

void PartSums::add_elements(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < merged_; ++i) {
        Sum& left = sums_[sums_.size() - 2 - i];
        const Sum& right = sums_[sums_.size() - 1 - i];
        add({left.values.data() + first, count}, {right.values.data() + first, count});
    }
}

void PartSums::end_part() {
    for (; merged_ > 0; --merged_) {
        sums_[sums_.size() - 2].parts.end = sums_.back().parts.end;
        free_.push_back(std::move(sums_.back().values));
        sums_.pop_back();
    }
}

void PartSums::add_part() {
    add_elements(0, elements_);
    end_part();
}

std::vector<Node> PartSums::nodes() {
    std::vector<Node> nodes;
    for (std::size_t i = 0; i + merged_ < sums_.size(); ++i)
        nodes.push_back({sums_[i].parts, {sums_[i].values.data(), elements_}});
    if (merged_ > 0) nodes.back().parts.end = sums_.back().parts.end;
    return nodes;
}

} // namespace hekla::exchange
