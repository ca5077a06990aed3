// The adapters that are open with a model: their descriptions, and how much each is used.
#pragma once

#include "models/engine.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace observatory {

struct Adapter {
    enum class State { opening, ready, failed };
    uint64_t id = 0; // never reused
    std::string name, folder;
    State state = State::opening;
    std::string problem;     // the engine's message for State::failed
    std::string kind;        // "lora", "bottleneck"
    int64_t rank = 0;        // the largest of its modules; 0: its kind has none
    int64_t least_rank = 0;  // the smallest of its modules
    std::size_t modules = 0; // that it acts at
    int64_t parameters = 0;
    double share = 0;         // parameters, as a part of the body's
    std::string slot_problem; // why it cannot be exchanged between tokens; "": it can
    float scale = 1.0F;       // multiplies what it adds
    bool chosen = true;       // has a row side by side, and is in the mix
};

// Thread: the drawing thread, between frames.
class Adapters {
public:
    explicit Adapters(Engine& engine) : engine_(engine) {}
    // Reads and checks an adapter on the jobs thread; the entry exists at once. `name` "": the folder's. A name that
    // another entry has gets a number.
    void open(const std::string& model, const std::string& folder, const std::string& name = {}, float scale = 1.0F);
    void remove(uint64_t id);
    void clear() { all_.clear(); }
    void update(); // called once per frame: takes over what the jobs thread has read
    bool is_opening() const;
    std::vector<Adapter>& all() { return all_; }
    const std::vector<Adapter>& all() const { return all_; }

private:
    struct Opened {
        std::mutex mutex;
        std::vector<Adapter> entries;
    };
    std::string free_name(const std::string& wanted) const;
    Engine& engine_;
    std::vector<Adapter> all_;
    std::shared_ptr<Opened> opened_ = std::make_shared<Opened>(); // filled by the jobs thread
    uint64_t last_id_ = 0;
};

// "NAME=FOLDER" or "NAME=FOLDER:SCALE", as `hekla generate --adapter`. Throws a Failure.
struct AdapterArgument {
    std::string name, folder;
    float scale = 1.0F;
};
AdapterArgument parse_adapter(const std::string& text);

} // namespace observatory
