// Rare classes are drawn as often as frequent ones, and every example of a class before any is repeated.
#include "data/class_balance.hpp"

#include <doctest/doctest.h>
#include <map>
#include <set>

using namespace hekla::data;

TEST_CASE("class balance: each class once per round, each example of a class once per epoch of the class") {
    std::vector<int32_t> classes(100, 0);
    classes[7] = classes[50] = classes[93] = 1;
    classes[20] = 2;
    classes[99] = -1; // no class
    const ClassBalance order(classes, 5);
    std::map<int32_t, int> drawn;
    std::map<std::pair<int32_t, uint64_t>, std::set<uint64_t>> seen;
    std::set<std::vector<int32_t>> rounds;
    for (uint64_t round = 0; round < 300; ++round) {
        std::vector<int32_t> one;
        for (uint64_t i = 0; i < 3; ++i) {
            const Position position = order.at(round * 3 + i);
            CHECK(position.number == round * 3 + i);
            const int32_t label = classes[position.begin];
            ++drawn[label];
            CHECK(seen[{label, position.epoch}].insert(position.begin).second);
            one.push_back(label);
        }
        CHECK(std::set<int32_t>(one.begin(), one.end()).size() == 3);
        rounds.insert(one);
    }
    CHECK(rounds.size() == 6); // classes are drawn in every order
    CHECK(drawn == std::map<int32_t, int>{{0, 300}, {1, 300}, {2, 300}});
    CHECK(seen[{1, 4}].size() == 3);
    CHECK(seen[{0, 0}].size() == 95);
    const ClassBalance again(classes, 5), other(classes, 6);
    int same = 0;
    for (uint64_t number = 0; number < 300; ++number) {
        CHECK(order.at(number) == again.at(number));
        same += order.at(number) == other.at(number) ? 1 : 0;
    }
    CHECK(same < 150);
}
