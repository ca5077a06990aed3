#include "exchange/thread_communicator.hpp"

#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hekla::exchange {
namespace {

// An exchange that not all ranks are done with.
struct Round {
    explicit Round(std::size_t ranks) : posts(ranks), open(ranks, ranks) {}
    std::vector<std::vector<hk_exchange_part>> posts; // by rank; empty: not begun
    std::vector<std::size_t> open;                    // by rank: ranks that it has not exchanged with
    std::size_t taken = 0;                            // ranks that know that it is done
};

// The state that the ranks share. A pair of ranks is served by the thread of the one that begins the exchange later, so
// no thread waits in here.
class Group {
public:
    explicit Group(std::size_t ranks) : size_(ranks), copying_(ranks), answers_(ranks) {}

    int32_t begin(std::size_t rank, uint64_t number, const hk_exchange_part* parts, hk_string* why) {
        std::vector<std::size_t> peers;
        Round* round = nullptr;
        {
            const std::lock_guard lock(mutex_);
            round = &rounds_.try_emplace(number, size_).first->second;
            if (lost_ >= 0) return HK_OK; // test() reports it
            if (!round->posts[rank].empty())
                return answer(rank, HK_INVALID_ARGUMENT, fmt::format("exchange {} was begun twice", number), why);
            round->posts[rank].assign(parts, parts + size_);
            for (std::size_t peer = 0; peer < size_; ++peer) {
                if (round->posts[peer].empty()) continue;
                if (matches(*round, rank, peer) && matches(*round, peer, rank)) {
                    peers.push_back(peer);
                    continue;
                }
                round->posts[rank].clear(); // its bytes are not used any more
                return answer(rank, HK_INVALID_ARGUMENT,
                              fmt::format("exchange {}: ranks {} and {} expect different sizes", number, rank, peer),
                              why);
            }
            for (const std::size_t peer : peers) {
                ++copying_[rank];
                ++copying_[peer];
            }
        }
        // A round lives until both ranks of each pair have tested it, and its posts do not change.
        for (const std::size_t peer : peers) {
            copy(*round, rank, peer);
            if (peer != rank) copy(*round, peer, rank);
        }
        const std::lock_guard lock(mutex_);
        for (const std::size_t peer : peers) {
            --round->open[rank];
            if (peer != rank) --round->open[peer];
            --copying_[rank];
            --copying_[peer];
        }
        copied_.notify_all();
        return HK_OK;
    }

    int32_t test(std::size_t rank, uint64_t number, int32_t* done, int32_t* lost, hk_string* why) {
        const std::lock_guard lock(mutex_);
        *done = 0;
        *lost = -1;
        const auto found = rounds_.find(number);
        if (found == rounds_.end())
            return answer(rank, HK_INVALID_ARGUMENT, fmt::format("exchange {} was not begun", number), why);
        if (found->second.open[rank] == 0) {
            *done = 1;
            if (++found->second.taken == size_) rounds_.erase(found);
        } else if (lost_ >= 0 && copying_[rank] == 0) { // afterwards the rank may free its bytes
            *lost = lost_;
            return answer(rank, HK_OK, reason_, why);
        }
        return HK_OK;
    }

    // Returns when no other thread reads or writes the rank's bytes any more.
    void fail(std::size_t rank, std::string why) {
        std::unique_lock lock(mutex_);
        if (lost_ < 0) { // the first reason is the one that matters
            lost_ = static_cast<int32_t>(rank);
            reason_ = std::move(why);
        }
        copied_.wait(lock, [&] { return copying_[rank] == 0; });
    }

private:
    static bool matches(const Round& round, std::size_t from, std::size_t to) {
        return round.posts[from][to].send_bytes == round.posts[to][from].receive_bytes;
    }
    static void copy(const Round& round, std::size_t from, std::size_t to) {
        const hk_exchange_part& sent = round.posts[from][to];
        void* const received = round.posts[to][from].receive;
        if (sent.send_bytes > 0 && sent.send != received)
            std::memcpy(received, sent.send, static_cast<std::size_t>(sent.send_bytes));
    }
    int32_t answer(std::size_t rank, int32_t code, std::string text, hk_string* why) {
        answers_[rank] = std::move(text);
        *why = {answers_[rank].data(), answers_[rank].size()};
        return code;
    }

    const std::size_t size_;
    std::mutex mutex_;
    std::condition_variable copied_;
    std::map<uint64_t, Round> rounds_;
    std::vector<std::size_t> copying_; // by rank: copies from or to it that are in progress
    std::vector<std::string> answers_; // by rank: the message of its last call
    int32_t lost_ = -1;
    std::string reason_;
};

struct Rank {
    std::shared_ptr<Group> group;
    std::size_t rank = 0;
};

// Runs a function of a group; an exception (no memory) becomes a code.
template<class F>
int32_t without_exceptions(hk_string* why, F&& f) noexcept {
    try {
        return f();
    } catch (const std::exception&) {
        static constexpr char kText[] = "no memory for the exchange";
        *why = {kText, sizeof kText - 1};
        return HK_OUT_OF_MEMORY;
    }
}

int32_t HK_ABI begin_of_thread(void* user, uint64_t number, const hk_exchange_part* parts, hk_string* why) {
    const Rank& rank = *static_cast<Rank*>(user);
    return without_exceptions(why, [&] { return rank.group->begin(rank.rank, number, parts, why); });
}

int32_t HK_ABI test_of_thread(void* user, uint64_t number, int32_t* done, int32_t* lost, hk_string* why) {
    const Rank& rank = *static_cast<Rank*>(user);
    return without_exceptions(why, [&] { return rank.group->test(rank.rank, number, done, lost, why); });
}

void HK_ABI fail_of_thread(void* user, hk_string why) {
    const Rank& rank = *static_cast<Rank*>(user);
    hk_string ignored{};
    without_exceptions(&ignored, [&]() -> int32_t {
        rank.group->fail(rank.rank,
                         std::string(why.data != nullptr ? why.data : "", static_cast<std::size_t>(why.size)));
        return HK_OK;
    });
}

} // namespace

void create_thread_communicators(std::span<hk_communicator> ranks) {
    const auto group = std::make_shared<Group>(ranks.size());
    std::vector<std::unique_ptr<Rank>> made;
    for (std::size_t r = 0; r < ranks.size(); ++r) made.push_back(std::make_unique<Rank>(Rank{group, r}));
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        ranks[r] = {};
        ranks[r].struct_size = sizeof(hk_communicator);
        ranks[r].rank = static_cast<int32_t>(r);
        ranks[r].size = static_cast<int32_t>(ranks.size());
        ranks[r].user = made[r].release();
        ranks[r].begin = begin_of_thread;
        ranks[r].test = test_of_thread;
        ranks[r].fail = fail_of_thread;
    }
}

void destroy_thread_communicator(hk_communicator& rank) {
    if (rank.begin == begin_of_thread) delete static_cast<Rank*>(rank.user);
    rank = {};
}

} // namespace hekla::exchange
