// The results of `hekla prune`: a table, JSON, a picture and a page of the validation loss against the share of weights
// that are left.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::app {

// What a round trains.
enum class TicketKind : uint8_t {
    ticket,      // the pruned network, with the weights that [prune] starts it from
    random_mask, // control: as many weights of each parameter, chosen at random
    random_init, // control: the ticket's mask with new random weights
};
inline constexpr TicketKind kTicketKinds[] = {TicketKind::ticket, TicketKind::random_mask, TicketKind::random_init};
const char* kind_name(TicketKind kind); // "ticket", "random_mask", "random_init"

// A training that is finished.
struct TicketResult {
    TicketKind kind = TicketKind::ticket;
    int64_t seed = 0;
    int64_t round = 0;             // 0: before any pruning
    int64_t kept = 0, weights = 0; // prunable ones
    double loss = 0.0;             // validation loss of the saved model
    double best = 0.0;             // best evaluation, by train.metric_for_best_model
    int64_t best_step = 0, steps = 0;

    nlohmann::ordered_json json() const;
};
// Reads what TicketResult::json() wrote. where: the file, for the message. corrupt: another content.
Result<TicketResult> ticket_result(const std::string& text, const std::string& where);

class TicketReport {
public:
    void add(const TicketResult& result) { results_.push_back(result); }
    std::string table() const;
    nlohmann::ordered_json json() const;
    std::string svg(const std::string& title) const; // self-contained
    // Returns a self-contained HTML page. recipe: the resolved recipe as text.
    std::string page(const std::string& title, const std::string& recipe) const;

private:
    // The trainings of one kind and round, over all seeds.
    struct Point {
        TicketKind kind = TicketKind::ticket;
        int64_t round = 0, kept = 0, weights = 0;
        std::vector<TicketResult> runs;
        double share() const { return static_cast<double>(kept) / static_cast<double>(weights); }
        double mean() const;
        double deviation() const; // of a sample; 0 for one run
    };
    std::vector<Point> points() const; // by round, then by kind
    std::vector<TicketResult> results_;
};

} // namespace hekla::app
