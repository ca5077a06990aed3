// A generation whose rows use the open adapters: one, several with a factor each, or none.
#pragma once

#include "base/temporary_folder.hpp"
#include "models/adapters.hpp"

#include <memory>
#include <optional>

namespace observatory {

// What a row is written with.
struct AdapterUse {
    std::string label;          // "base", "a", "mix"
    std::vector<double> scales; // by adapter, as in Adapters::all(): what it adds is multiplied by; 0: not used
};

struct AdapterWritingOptions {
    std::string model, prompt;
    int64_t tokens = 0;
    double temperature = 0; // 0: always the most likely token
    int64_t top_k = 0;      // 0: all
    uint64_t seed = 0;
    bool between_tokens = true;   // want() is possible; not for encoder-decoders
    std::vector<AdapterUse> rows; // one or more
};

// LoRA adapters are in slots of the session, so that want() takes effect between tokens. A row that uses several of
// them has their exact sum in a slot: `hekla adapter combine` makes it, while the row is written with the one before.
// Where a row uses an adapter that cannot be in a slot, what is wanted takes effect with the next begin().
// Thread: the drawing thread, between frames, after all submitted frames have completed for begin() and end().
class AdapterWriting {
public:
    enum class State { none, preparing, writing, done };
    // A change of what a row is written with, while it was written.
    struct Change {
        std::size_t at; // bytes of the row's text that had arrived
        AdapterUse use;
    };
    struct Row {
        AdapterUse use; // what it is written with now
        std::string text;
        std::vector<Change> changes;
    };

    explicit AdapterWriting(Engine& engine) : engine_(engine) {}
    ~AdapterWriting() { end(); }
    AdapterWriting(const AdapterWriting&) = delete;
    AdapterWriting& operator=(const AdapterWriting&) = delete;

    void begin(const std::vector<Adapter>& adapters, const AdapterWritingOptions& options);
    void end();
    // Stops after the current token; the text stays.
    void stop() const { session_.session().stop(); }
    // Sets what the rows are to be written with. Returns false, without a change, if it cannot act between tokens:
    // another number of rows, adapters that begin() did not have or that cannot be in slots, several mixes. from_start:
    // a row's earlier tokens are computed again with its new adapters; else they stay as they are.
    bool want(std::vector<AdapterUse> rows, bool from_start);
    void update(); // called once per frame: takes the text, continues changes

    State state() const;
    bool is_live() const { return slots_ > 0 && options_.between_tokens; } // want() takes effect between tokens
    bool is_changing() const { return changing_; }                         // it has not taken effect yet
    const std::vector<Row>& rows() const { return rows_; }
    int64_t tokens() const { return session_ ? session_.session().wait(0).step : 0; } // of all rows
    double progress() const { return session_ ? session_.session().wait(0).progress : 0.0; }
    const std::string& problem() const { return problem_; }

private:
    using Scales = std::vector<double>;
    // The sum of several adapters, which the jobs thread makes.
    struct Mix {
        std::shared_ptr<hekla::TemporaryFolder> parent; // of `folder`
        std::mutex mutex;
        bool done = false;
        Scales scales;
        std::string folder, problem;
        hk::Adapter adapter;
    };
    void make_mix(const Scales& scales);
    void start();
    void apply();
    void set_row(std::size_t row, int32_t slot, double scale, const AdapterUse& use);
    Engine& engine_;
    hk::Generation session_;
    AdapterWritingOptions options_;
    std::vector<std::string> folders_;  // of the adapters of begin()
    std::vector<int32_t> slot_of_;      // by adapter; -1: none
    int32_t slots_ = 0, next_slot_ = 0; // all slots; the one that the next mix is put into
    int32_t rank_ = 0;                  // of the slots
    std::vector<Row> rows_;
    std::vector<AdapterUse> wanted_;
    bool from_start_ = true, starts_ = false, changing_ = false;
    std::shared_ptr<Mix> mix_;                          // that is being made; null: none
    std::shared_ptr<hekla::TemporaryFolder> temporary_; // for mixes; null: not made yet
    int mixes_ = 0;
    std::string problem_;
};

} // namespace observatory
