#include "data/class_balance.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"
#include "data/permutation.hpp"

#include <map>

namespace hekla::data {
namespace {

uint64_t key_of(const char* what, uint64_t seed, uint64_t number) {
    return RandomStream(hash64(what, seed), number).next_u64();
}

} // namespace

ClassBalance::ClassBalance(const std::vector<int32_t>& classes, uint64_t seed) : seed_(seed) {
    std::map<int32_t, std::vector<uint64_t>> by_class;
    for (std::size_t i = 0; i < classes.size(); ++i)
        if (classes[i] >= 0) by_class[classes[i]].push_back(i);
    for (auto& [label, examples] : by_class) examples_.push_back(std::move(examples));
}

Position ClassBalance::at(uint64_t number) const {
    const uint64_t round = number / examples_.size();
    const Permutation turns(examples_.size(), key_of("data.class_rounds", seed_, round));
    const uint64_t turn = turns(number % examples_.size());
    const std::vector<uint64_t>& own = examples_[turn];
    const uint64_t epoch = round / own.size();
    const Permutation order(own.size(), key_of("data.class_examples", seed_ + turn, epoch));
    return {number, epoch, own[order(round % own.size())]};
}

} // namespace hekla::data
